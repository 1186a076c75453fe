/* python.exe: the interpreter is python311.dll. */
#include <wchar.h>

int Py_Main(int argc, wchar_t **argv);

int wmain(int argc, wchar_t **argv) { return Py_Main(argc, argv); }
