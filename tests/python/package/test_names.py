"""Every name that the package settled on exists, has the settled order of arguments, and behaves; importing
the package is quick and drags nothing in."""

from __future__ import annotations

import importlib.metadata
import inspect
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import otattn
import pytest
import torch.nn.functional as F
from otattn._library import FOLDER

SETTLED = [
    "query",
    "key",
    "value",
    "attn_mask",
    "dropout_p",
    "is_causal",
    "scale",
    "enable_gqa",
    "method",
    "temperature",
    "rounds",
    "tolerance",
    "max_rounds",
    "alpha",
    "cap",
    "strength",
    "row_mass",
    "column_mass",
    "bias",
    "alibi_slopes",
    "window",
    "softcap",
    "sink",
    "return_aux",
]
DEFAULTS = {"method": "softmax", "temperature": 1.0, "softcap": 0.0, "return_aux": None, "window": None}
FIELDS = ("coupling", "potentials", "receiver", "row_stats", "lse", "certificate")
ENTMAX = [
    "sparsemax",
    "entmax15",
    "entmax_bisect",
    "sparsemax_bisect",
    "normmax_bisect",
    "budget_bisect",
    "sparsemax_loss",
    "entmax15_loss",
    "entmax_bisect_loss",
    "sparsemax_bisect_loss",
    "normmax_bisect_loss",
    "Sparsemax",
    "Entmax15",
    "EntmaxBisect",
    "SparsemaxBisect",
    "NormmaxBisect",
    "BudgetBisect",
    "SparsemaxLoss",
    "Entmax15Loss",
    "EntmaxBisectLoss",
    "SparsemaxBisectLoss",
    "NormmaxBisectLoss",
]


def test_arguments_of_attention() -> None:
    parameters = inspect.signature(otattn.attention).parameters
    assert list(parameters)[: len(SETTLED)] == SETTLED
    for name, default in DEFAULTS.items():
        assert parameters[name].default == default and parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
    assert all(parameters[name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for name in SETTLED[:8])
    # torch's own, as its documentation spells them.
    stated = (F.scaled_dot_product_attention.__doc__ or "").partition(")")[0]
    assert [word for word in SETTLED[:8] if f"{word}" in stated] == SETTLED[:8]


def test_aux_has_the_settled_fields(rng: np.random.Generator) -> None:
    assert set(otattn.AuxRequest._fields) == set(FIELDS) <= set(otattn.AuxOutput._fields)
    x = rng.standard_normal((2, 4, 3))
    for name in FIELDS:
        _, aux = otattn.attention(x, x, x, return_aux=otattn.AuxRequest(**{name: True}))
        assert [field for field in FIELDS if getattr(aux, field) is not None] == [name]


def test_every_public_name_is_there() -> None:
    for name in otattn.__all__:
        assert getattr(otattn, name) is not None
        assert name in dir(otattn)
    for name in ENTMAX:
        assert callable(getattr(otattn.activations, name))
    with pytest.raises(AttributeError, match="no attribute 'atention'"):
        otattn.atention  # noqa: B018


THREADS_OF_THE_ENVIRONMENT = """
import numpy, otattn
x = numpy.zeros((1, 1, 4, 2))
print(otattn.get_num_threads(), otattn.Plan(x, x, x).threads, end=" ")
otattn.set_num_threads(2)
print(otattn.get_num_threads())
"""


@pytest.mark.parametrize(
    "text, number", [("3", 3), (" 5,2", 5), ("", 0), ("0", 0), ("-1", 0), ("many", 0), ("1e2", 0), (None, 0)]
)
def test_threads_of_the_environment(text: str | None, number: int) -> None:
    plain = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    found = subprocess.run(
        [sys.executable, "-c", THREADS_OF_THE_ENVIRONMENT],
        env=plain if text is None else plain | {"OMP_NUM_THREADS": text},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    wanted = number or otattn._library.library.ota_processors()
    assert [int(word) for word in found] == [wanted, wanted, 2]


def test_threads() -> None:
    whole = otattn.get_num_threads()
    x = np.random.default_rng(0).standard_normal((2, 2, 64, 8))
    right = otattn.attention(x, x, x)
    try:
        otattn.set_num_threads(3)
        plan = otattn.Plan(x, x, x)
        assert otattn.get_num_threads() == 3 == plan.threads
        with otattn.threads(1):
            assert otattn.get_num_threads() == 1 == otattn.Plan(x, x, x).threads
            assert (otattn.attention(x, x, x) == right).all()
            # A plan goes on with the threads that it has.
            assert (plan.forward(x, x, x) == right).all()
            with otattn.threads(2):
                assert otattn.get_num_threads() == 2
            seen: list[int] = []
            other = threading.Thread(target=lambda: seen.append(otattn.get_num_threads()))
            other.start()
            other.join()
            # A with block holds for the thread that is in it.
            assert seen == [3] and otattn.get_num_threads() == 1
        with pytest.raises(RuntimeError), otattn.threads(1):
            raise RuntimeError
        assert otattn.get_num_threads() == 3
    finally:
        otattn.set_num_threads(0)
    assert otattn.get_num_threads() == whole
    for wrong in (-1, 1 << 21):
        with pytest.raises(ValueError, match="n is"):
            otattn.set_num_threads(wrong)
    for kind in (1.5, "2", True):
        with pytest.raises(TypeError, match="wanted an int"):
            otattn.set_num_threads(kind)  # type: ignore[arg-type]


def test_a_partial_plan_is_returned_with_a_warning(rng: np.random.Generator) -> None:
    x = 9 * rng.standard_normal((6, 4))
    options = {"method": "softmax/exact", "max_rounds": 2, "tolerance": 1e-12}
    with pytest.raises(otattn.NotConverged) as caught:
        otattn.attention(x, x, x, **options)
    assert caught.value.certificate is not None and caught.value.certificate.column_error > 1e-12
    with pytest.warns(otattn.PartialWarning):
        out = otattn.attention(x, x, x, allow_partial=True, **options)
    assert np.isfinite(out).all()


IMPORTING = """
import sys, time
import numpy
begin = time.process_time()
import otattn
heavy = {"torch", "jax", "transformers", "scipy", "altair"}
print(time.process_time() - begin, *sorted(heavy & set(sys.modules)))
"""


def test_import() -> None:
    found = []
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", IMPORTING], capture_output=True, text=True, check=True)
        seconds, *dragged = done.stdout.split()
        assert dragged == []
        found.append(float(seconds))
    assert min(found) <= 0.060


# As an editable install has it: the finder knows the compiled module by its file, in another folder than the
# Python files, and what the build installed beside it lies there.
EDITABLE = """
import importlib.util, sys
sources, built = sys.argv[1:]
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "otattn":
            return importlib.util.spec_from_file_location(
                name, f"{sources}/__init__.py", submodule_search_locations=[sources])
        if name == "otattn._native":
            return importlib.util.spec_from_file_location(name, f"{built}/_native.abi3.so")
sys.meta_path.insert(0, Finder())
import numpy, otattn
assert otattn.__file__.startswith(sources)
x = numpy.eye(3)
_, aux = otattn.attention(x, x, x, return_aux=otattn.AuxRequest(coupling=True))
otattn.show(aux)
print("all well")
"""


def test_python_files_and_library_in_two_folders(tmp_path: Path) -> None:
    package = Path(otattn.__file__).parent
    sources, built = tmp_path / "sources", tmp_path / "built"
    data = shutil.ignore_patterns("*.so", "figures", "__pycache__")
    shutil.copytree(package, sources, ignore=data)
    built.mkdir()
    for x in (*FOLDER.glob("*.so"), FOLDER / "figures"):
        (built / x.name).symlink_to(x)
    words = [sys.executable, "-c", EDITABLE, str(sources), str(built)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.stdout == "all well\n", done.stderr


@pytest.mark.parametrize("name, point", [("de_DE", ","), ("ps_AF", "\u066b")])
def test_names_under_a_comma_locale(name, point, tmp_path):
    """Methods, files of models and reasons are read and written in English, with a decimal point, where the
    process has set a locale with another one: a comma, or a character of two bytes."""
    definition = Path("/usr/share/i18n/locales") / name
    if shutil.which("localedef") is None or not definition.exists():
        pytest.skip("no definition of a locale: install the package locales")
    subprocess.run(["localedef", "-i", name, "-f", "UTF-8", str(tmp_path / f"{name}.UTF-8")], check=False)
    model = tmp_path / "model"
    shutil.copytree(Path(__file__).resolve().parents[3] / "data/demo/model", model)
    settings = json.loads((model / "config.json").read_text())
    settings["layer_norm_epsilon"] = 0.25
    (model / "config.json").write_text(json.dumps(settings))
    program = f"""
import locale
import pathlib
import numpy as np
import otattn
locale.setlocale(locale.LC_ALL, "{name}.UTF-8")
assert locale.localeconv()["decimal_point"] == "{point}"
q = np.eye(4)
out, aux = otattn.attention(q, q, q, method="entmax:1.5/capped:1.25", temperature=0.5, return_aux=True)
print(otattn.Plan(q, q, q, method="entmax:1.5/capped:1.25").describe())
try:
    otattn.attention(q, q, q, method="entmax:-1.5")
except ValueError as wrong:
    print(wrong)
if {any(FOLDER.glob("*otattn_model*"))}:
    assert otattn.Model({str(model)!r}).facts.norm_epsilon == 0.25
    for file in pathlib.Path({str(model)!r}).glob("*.safetensors"):
        file.unlink()
    try:
        otattn.Model({str(model)!r})
    except Exception as wrong:
        assert "No such file" in str(wrong), wrong
"""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "LOCPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "method: entmax:1.5/capped:1.25" in ran.stdout
    assert "entmax order is -1.5" in ran.stdout


def test_pages_come_with_the_program() -> None:
    """The wheel lays man pages and completions where shells of an environment look for them."""
    files = [str(file) for file in importlib.metadata.files("otattn") or ()]
    if not any(name.endswith("otattn/bin/otattn") for name in files):
        pytest.skip("this installation has no program")
    for page in (
        "share/man/man1/otattn.1",
        "share/man/man1/otattn-attend.1",
        "share/bash-completion/completions/otattn",
        "share/zsh/site-functions/_otattn",
        "share/fish/vendor_completions.d/otattn.fish",
    ):
        found = next(name for name in files if name.endswith(page))
        assert importlib.metadata.distribution("otattn").locate_file(found).stat().st_size > 500, page
