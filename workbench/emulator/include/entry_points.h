// C entry points of a module: EMU_EXPORT(0, (softmax<256>)) makes emu_entry_0 and emu_signature_0.
// build.py writes one such line after the kernel's source.
#pragma once

template <class... Parameters, size_t... I>
__attribute__((no_sanitize("thread"))) inline void emu_call_each(void (*kernel)(Parameters...),
                                                                 void** arguments,
                                                                 std::index_sequence<I...>) {
  kernel(*(std::remove_cv_t<std::remove_reference_t<Parameters>>*)arguments[I]...);
}
template <class... Parameters>
__attribute__((no_sanitize("thread"))) void emu_call(void (*kernel)(Parameters...), void** arguments) {
  emu_call_each(kernel, arguments, std::index_sequence_for<Parameters...>{});
}

// One code a parameter: Python's struct letters, `p` for a pointer, `s24` for a structure of 24 bytes.
template <class T>
void emu_append_code(char*& end) {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_pointer_v<U>) *end++ = 'p';
  else if constexpr (std::is_same_v<U, float>) *end++ = 'f';
  else if constexpr (std::is_same_v<U, double>) *end++ = 'd';
  else if constexpr (std::is_same_v<U, bool>) *end++ = '?';
  else if constexpr (std::is_same_v<U, __half>) *end++ = 'e';
  else if constexpr (std::is_same_v<U, __nv_bfloat16>) end += sprintf(end, "bf16");
  else if constexpr (std::is_integral_v<U> || std::is_enum_v<U>)
    *end++ = (std::is_signed_v<U> ? "bhiq" : "BHIQ")[__builtin_ctz(sizeof(U))];
  else end += sprintf(end, "s%zu", sizeof(U));
  *end++ = ',';
}
template <class... Parameters>
const char* emu_signature(void (*)(Parameters...)) {
  static char codes[12 * sizeof...(Parameters) + 1];
  char* end = codes;
  (emu_append_code<Parameters>(end), ...);
  *end = 0;
  return codes;
}

#define EMU_EXPORTED extern "C" __attribute__((visibility("default"), no_sanitize("thread")))
#define EMU_EXPORT(number, ...)                                                                  \
  EMU_EXPORTED void emu_entry_##number(void** arguments) { emu_call((__VA_ARGS__), arguments); } \
  EMU_EXPORTED const char* emu_signature_##number() { return emu_signature((__VA_ARGS__)); }
