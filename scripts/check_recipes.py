"""Reads the recipes of packaging/ (or of another folder) as their tools would, as far as the tools are here.

check_recipes.py [FOLDER]

vcpkg    vcpkg.json as JSON with the members that vcpkg asks for; portfile.cmake run by CMake with stand-ins
         for vcpkg's functions, which must all be known
conda    recipe.yaml rendered by rattler-build, every output
nix      package.nix parsed by nix-instantiate, where that is installed
brew     otattn.rb parsed by ruby, where that is installed
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from check_version import ROOT, version_of

# vcpkg's functions that a port may call; the one that looks for features sets what it is asked for.
VCPKG = (
    "vcpkg_check_features",
    "vcpkg_cmake_config_fixup",
    "vcpkg_cmake_configure",
    "vcpkg_cmake_install",
    "vcpkg_copy_pdbs",
    "vcpkg_download_distfile",
    "vcpkg_extract_source_archive",
    "vcpkg_fixup_pkgconfig",
    "vcpkg_install_copyright",
)


def run(*words: object) -> str | None:
    """What a failed command said."""
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    return None if done.returncode == 0 else (done.stdout + done.stderr).strip()


def vcpkg(folder: Path) -> str | None:
    port = json.loads((folder / "vcpkg.json").read_text(encoding="utf-8"))
    missing = {"name", "version", "description", "license", "dependencies"} - set(port)
    if missing or not re.fullmatch("[a-z0-9-]+", port["name"]):
        return f"vcpkg.json lacks {sorted(missing)}"
    with tempfile.TemporaryDirectory() as name:
        script = Path(name) / "port.cmake"
        lines = [f"function({call})\nendfunction()" for call in VCPKG]
        lines.append(f"set(VERSION {port['version']})\nset(VCPKG_LIBRARY_LINKAGE static)")
        lines.append(f'set(CURRENT_PACKAGES_DIR "{name}/packages")')
        lines.append(f'include("{(folder / "portfile.cmake").resolve()}")')
        script.write_text("\n".join(lines), encoding="utf-8")
        return run("cmake", "-P", script)


def conda(folder: Path) -> str | None:
    import rattler_build

    variants = {"c_compiler": ["gcc"], "c_stdlib": ["sysroot"], "python": ["3.11"]}
    try:
        recipe = rattler_build.Stage0Recipe.from_file(folder / "recipe.yaml")
        rendered = recipe.render(rattler_build.VariantConfig(variants))
    except rattler_build.RattlerBuildError as error:
        return str(error)
    names = {(str(r.recipe.package.name), str(r.recipe.package.version)) for r in rendered}
    want = {(name, version_of()) for name in ("libotattn", "otattn")}
    return None if names == want else f"renders {sorted(names)}"


def nix(folder: Path) -> str | None:
    return run("nix-instantiate", "--parse", folder / "package.nix")


def brew(folder: Path) -> str | None:
    return run("ruby", "-wc", folder / "otattn.rb")


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "packaging"
    failed = 0
    for name, read, at, tool in (
        ("vcpkg", vcpkg, "vcpkg/otattn", "cmake"),
        ("conda", conda, "conda-forge", "python3"),
        ("nix", nix, "nix", "nix-instantiate"),
        ("brew", brew, "homebrew", "ruby"),
    ):
        if shutil.which(tool) is None:
            print(f"recipes: {name} was not read, for lack of {tool}")
            continue
        said = read(folder / at)
        failed += said is not None
        print(f"recipes: {name} {'is sound' if said is None else said}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
