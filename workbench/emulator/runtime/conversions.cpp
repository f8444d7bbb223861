// Floats that become an integer type which does not hold them: C++ leaves open what comes of it.
//
// The compiler calls this for each of them (-fsanitize=float-cast-overflow), and the conversion goes on as on
// this machine. Most come out as on a card. A negative number that becomes an unsigned type does not: a card
// makes zero of it, this machine wraps it round, and the run cannot go on as on a card.
#include <cmath>
#include <cstdio>
#include <cstring>

#include "faults.h"
#include "scheduler.h"
#include "state.h"

namespace emu {
namespace {

constexpr double kAgreed = 2147483648.0;  // beyond, nobody promises anything of a conversion

// As g++ lays them out for its own library.
struct TypeName {
  uint16_t kind, info;  // an integer's info ends with a bit that says whether it is signed
  char name[1];         // in quotes
};
struct Conversion {
  const char* file;
  uint32_t line, column;
  const TypeName *from, *to;
};

double number(const TypeName& type, const void* bits) {
  if (type.info == 64) {
    double wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
  }
  float narrow;
  memcpy(&narrow, &bits, sizeof narrow);
  return narrow;
}

}  // namespace
}  // namespace emu

extern "C" void __ubsan_handle_float_cast_overflow(void* data, void* bits) {
  auto& conversion = *static_cast<const emu::Conversion*>(data);
  bool is_signed = conversion.to->info & 1;
  double value = emu::number(*conversion.from, bits);
  if (is_signed || !(value <= -1 && value >= -emu::kAgreed)) return;
  char text[256];
  snprintf(text, sizeof text,
           "%g becomes %s, of which a card makes 0 and others not; convert it to int first, which wraps round",
           value, conversion.to->name);
  emu::trap(__builtin_return_address(0), text);
}
