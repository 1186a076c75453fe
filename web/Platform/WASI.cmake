# CMake asks for a file of the system; there is nothing to say about WASI.
