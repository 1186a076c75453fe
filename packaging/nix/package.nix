{
  lib,
  stdenv,
  fetchurl,
  cmake,
  pkg-config,
  jansson,
  libmd,
  libzip,
  pcre2,
  utf8proc,
  zlib,
}:

stdenv.mkDerivation (finalAttrs: {
  pname = "otattn";
  version = "0.2.0";

  src = fetchurl {
    url = "https://example.org/otattn/releases/download/v${finalAttrs.version}/otattn-${finalAttrs.version}.tar.gz";
    sha256 = "0000000000000000000000000000000000000000000000000000000000000000";
  };

  nativeBuildInputs = [
    cmake
    pkg-config
  ];
  buildInputs = [
    jansson
    libmd
    libzip
    pcre2
    utf8proc
    zlib
  ];
  cmakeFlags = [
    (lib.cmakeBool "OTATTN_TESTS" false)
    (lib.cmakeBool "OTATTN_SPECTRA" false)
  ];

  doInstallCheck = true;
  installCheckPhase = ''
    runHook preInstallCheck
    $out/bin/otattn --version
    runHook postInstallCheck
  '';

  meta = {
    description = "Attention as optimal transport";
    homepage = "https://example.org/otattn";
    changelog = "https://example.org/otattn/blob/v${finalAttrs.version}/CHANGELOG.md";
    license = lib.licenses.mit;
    mainProgram = "otattn";
    platforms = lib.platforms.linux;
  };
})
