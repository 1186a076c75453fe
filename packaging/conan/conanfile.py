"""The C library, and with it the static library of measures where the core is static."""

from pathlib import Path
from typing import ClassVar

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, get, rmdir

required_conan_version = ">=2.0"


class OtattnConan(ConanFile):
    name = "otattn"
    version = "0.2.0"
    description = "Attention as optimal transport"
    license = "MIT"
    homepage = "https://example.org/otattn"
    url = "https://example.org/otattn"
    topics = ("attention", "optimal-transport", "sinkhorn", "entmax")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options: ClassVar = {"shared": [True, False], "fPIC": [True, False]}
    default_options: ClassVar = {"shared": False, "fPIC": True}
    languages = ("C",)
    implements = ("auto_shared_fpic",)

    def layout(self):
        cmake_layout(self, src_folder="src")

    def source(self):
        get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def generate(self):
        toolchain = CMakeToolchain(self)
        shared = bool(self.options.shared)
        toolchain.cache_variables.update(
            OTATTN_TESTS=False,
            OTATTN_PROGRAM=False,
            OTATTN_MODEL=False,
            OTATTN_SPECTRA=False,
            OTATTN_ANALYSIS=not shared,
            OTATTN_SHARED_LIBRARY=shared,
        )
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, Path(self.package_folder) / "licenses")
        CMake(self).install()
        for folder in ("lib/cmake", "lib/pkgconfig", "share"):
            rmdir(self, Path(self.package_folder) / folder)

    def package_info(self):
        system = ["m", "pthread"] if self.settings.os in ("Linux", "FreeBSD") else []
        self.cpp_info.set_property("cmake_file_name", "otattn")
        core = self.cpp_info.components["core"]
        core.libs = ["otattn"]
        core.system_libs = system
        core.set_property("cmake_target_name", "otattn::otattn")
        core.set_property("pkg_config_name", "otattn")
        if self.settings.os == "Windows":
            if self.options.shared:
                core.defines = ["OTATTN_SHARED"]
            else:
                core.libs = ["otattn_static"]
        if not self.options.shared:
            analysis = self.cpp_info.components["analysis"]
            analysis.libs = ["otattn_analysis"]
            analysis.requires = ["core"]
            analysis.set_property("cmake_target_name", "otattn::otattn-analysis")
            analysis.set_property("pkg_config_name", "otattn-analysis")
