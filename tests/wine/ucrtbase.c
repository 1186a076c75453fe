/* The complex functions of Windows' C library, which Wine 8 names and does not have; NumPy calls them. ucrtbase.py beside
 * this file lists them, without the line at the end, and for all others Wine's library. A long double is a double there. */
#include <complex.h>
#include <math.h>

typedef struct {
    double re, im;
} complex_f64;

typedef struct {
    float re, im;
} complex_f32;

#define COMPLEX(z) __builtin_complex((z).re, (z).im)

#define FUNCTION(name)                                                                             \
    complex_f64 name##_(complex_f64 z) {                                                           \
        double _Complex w = name(COMPLEX(z));                                                      \
        return (complex_f64){__real__ w, __imag__ w};                                              \
    }                                                                                              \
    complex_f32 name##f_(complex_f32 z) {                                                          \
        float _Complex w = name##f(COMPLEX(z));                                                    \
        return (complex_f32){__real__ w, __imag__ w};                                              \
    }                                                                                              \
    complex_f64 name##l_(complex_f64 z) { return name##_(z); }

#define FUNCTION_OF_TWO(name)                                                                      \
    complex_f64 name##_(complex_f64 z, complex_f64 y) {                                            \
        double _Complex w = name(COMPLEX(z), COMPLEX(y));                                          \
        return (complex_f64){__real__ w, __imag__ w};                                              \
    }                                                                                              \
    complex_f32 name##f_(complex_f32 z, complex_f32 y) {                                           \
        float _Complex w = name##f(COMPLEX(z), COMPLEX(y));                                        \
        return (complex_f32){__real__ w, __imag__ w};                                              \
    }                                                                                              \
    complex_f64 name##l_(complex_f64 z, complex_f64 y) { return name##_(z, y); }

#define REAL(name, f64, f32)                                                                       \
    double name##_(complex_f64 z) { return f64; }                                                  \
    float name##f_(complex_f32 z) { return f32; }                                                  \
    double name##l_(complex_f64 z) { return name##_(z); }

FUNCTION(cacos)
FUNCTION(cacosh)
FUNCTION(casin)
FUNCTION(casinh)
FUNCTION(catan)
FUNCTION(catanh)
FUNCTION(ccos)
FUNCTION(ccosh)
FUNCTION(cexp)
FUNCTION(clog)
FUNCTION(conj)
FUNCTION(cproj)
FUNCTION(csin)
FUNCTION(csinh)
FUNCTION(csqrt)
FUNCTION(ctan)
FUNCTION(ctanh)
FUNCTION_OF_TWO(cpow)
REAL(cabs, hypot(z.re, z.im), hypotf(z.re, z.im))
REAL(carg, atan2(z.im, z.re), atan2f(z.im, z.re))
REAL(creal, z.re, z.re)
REAL(cimag, z.im, z.im)
