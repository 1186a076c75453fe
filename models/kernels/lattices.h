/* The points of the lattices that the IQ types choose from. A coordinate is a small number, the first in the lowest bits:
 * 2 bits of 8 coordinates from 0 to 2, or 4 bits of 4 coordinates from 0 to 7. What the numbers stand for is said where
 * they are decoded (lattice_elements.inc.h). */
#ifndef OTATTN_MODELS_LATTICES_H
#define OTATTN_MODELS_LATTICES_H

#include <stdint.h>

extern const uint16_t ota_lattice_iq2_xxs[256]; /* 8 coordinates */
extern const uint16_t ota_lattice_iq2_xs[512];
extern const uint16_t ota_lattice_iq2_s[1024];
extern const uint16_t ota_lattice_iq1[2048];
extern const uint16_t ota_lattice_iq3_xxs[256]; /* 4 coordinates */
extern const uint16_t ota_lattice_iq3_s[512];

#endif
