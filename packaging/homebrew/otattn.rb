# What no compiler for macOS has seen but for src/base: docs/users/install.md.
class Otattn < Formula
  desc "Attention as optimal transport"
  homepage "https://example.org/otattn"
  url "https://example.org/otattn/releases/download/v0.2.0/otattn-0.2.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "MIT"

  depends_on "cmake" => :build
  depends_on "pkgconf" => [:build, :test]
  depends_on "jansson"
  depends_on "libzip"
  depends_on "pcre2"
  depends_on "utf8proc"
  uses_from_macos "zlib"

  on_linux do
    depends_on "libmd"
  end

  def install
    args = %w[-DOTATTN_TESTS=OFF -DOTATTN_SPECTRA=OFF]
    # The program takes its hashes from libmd, which macOS lacks.
    args << "-DOTATTN_PROGRAM=OFF" if OS.mac?
    system "cmake", "-S", ".", "-B", "build", *args, *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
    pkgshare.install "examples/quickstart.c"
  end

  test do
    flags = shell_output("pkgconf --cflags --libs otattn").chomp.split
    system ENV.cc, pkgshare/"quickstart.c", "-o", "quickstart", *flags
    assert_match "softmax", shell_output("./quickstart")
  end
end
