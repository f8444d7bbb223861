// The small part of PyTorch's C++ interface that custom kernels use, over its stable C interface.
// Parsing it takes a second where torch/extension.h takes most of a minute. What is not here does not
// compile, and the extension is then built with the whole header.
#pragma once
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/core/ScalarType.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <limits>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace thin {
inline void ok(AOTITorchError code, const char* what) {
    if (code != AOTI_TORCH_SUCCESS) throw std::runtime_error(std::string(what) + " failed");
}
template <class... Words> [[noreturn]] void refuse(const char* condition, Words&&... words) {
    std::ostringstream text;
    text << "expected " << condition << ' ';
    (void)(text << ... << words);
    throw std::runtime_error(text.str());
}
}  // namespace thin
#define THIN_OK(call) ::thin::ok((call), #call)
#define TORCH_CHECK(condition, ...) \
    do { if (!(condition)) ::thin::refuse(#condition, ##__VA_ARGS__); } while (0)
#define AT_ASSERTM TORCH_CHECK
#define TORCH_INTERNAL_ASSERT TORCH_CHECK

namespace torch {
using headeronly::ScalarType;
using Dtype = ScalarType;
constexpr ScalarType kFloat = ScalarType::Float, kFloat32 = kFloat, kDouble = ScalarType::Double, kFloat64 = kDouble,
                     kHalf = ScalarType::Half, kFloat16 = kHalf, kBFloat16 = ScalarType::BFloat16,
                     kInt = ScalarType::Int, kInt32 = kInt, kLong = ScalarType::Long, kInt64 = kLong,
                     kShort = ScalarType::Short, kInt16 = kShort, kChar = ScalarType::Char, kInt8 = kChar,
                     kByte = ScalarType::Byte, kUInt8 = kByte, kBool = ScalarType::Bool;
// int64_t is long on this system and long long elsewhere: both are 64 bits.
template <class T> constexpr ScalarType scalar_of() {
    if constexpr (std::is_same_v<T, float>) return kFloat;
    else if constexpr (std::is_same_v<T, double>) return kDouble;
    else if constexpr (std::is_same_v<T, bool>) return kBool;
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 8) return kLong;
    else if constexpr (std::is_integral_v<T> && sizeof(T) == 4) return kInt;
    else if constexpr (std::is_same_v<T, int16_t>) return kShort;
    else if constexpr (std::is_same_v<T, int8_t>) return kChar;
    else if constexpr (std::is_same_v<T, uint8_t>) return kByte;
    else if constexpr (std::is_same_v<T, c10::Half>) return kHalf;
    else if constexpr (std::is_same_v<T, c10::BFloat16>) return kBFloat16;
    else static_assert(sizeof(T) == 0, "no such element type");
}

struct Device {
    int32_t type, number;
    bool is_cuda() const { return type == aoti_torch_device_type_cuda(); }
    bool is_cpu() const { return type == aoti_torch_device_type_cpu(); }
    int32_t index() const { return number; }
    bool operator==(const Device& other) const { return type == other.type && number == other.number; }
    bool operator!=(const Device& other) const { return !(*this == other); }
};
inline const int32_t kCUDA = aoti_torch_device_type_cuda(), kCPU = aoti_torch_device_type_cpu();

struct TensorOptions {
    ScalarType type = kFloat;
    Device place{aoti_torch_device_type_cpu(), 0};
    TensorOptions dtype(ScalarType wanted) const { return {wanted, place}; }
    TensorOptions device(Device wanted) const { return {type, wanted}; }
    TensorOptions device(int32_t wanted, int32_t index = 0) const { return {type, {wanted, index}}; }
};
inline TensorOptions dtype(ScalarType wanted) { return TensorOptions().dtype(wanted); }

struct Sizes {
    const int64_t* first;
    size_t count;
    Sizes(const int64_t* first, size_t count) : first(first), count(count) {}
    Sizes(std::initializer_list<int64_t> list) : first(list.begin()), count(list.size()) {}
    Sizes(const std::vector<int64_t>& list) : first(list.data()), count(list.size()) {}
    size_t size() const { return count; }
    int64_t operator[](size_t axis) const { return first[axis]; }
    const int64_t* begin() const { return first; }
    const int64_t* end() const { return first + count; }
    const int64_t* data() const { return first; }
    std::vector<int64_t> vec() const { return {begin(), end()}; }
    bool operator==(const Sizes& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }
    bool operator!=(const Sizes& other) const { return !(*this == other); }
};
using IntArrayRef = Sizes;

class Tensor {
public:
    Tensor() = default;
    explicit Tensor(AtenTensorHandle owned) : handle_(owned, [](AtenTensorHandle h) { aoti_torch_delete_tensor_object(h); }) {}
    AtenTensorHandle get() const { return handle_.get(); }
    bool defined() const { return handle_ != nullptr; }

    int64_t dim() const { int64_t n; THIN_OK(aoti_torch_get_dim(get(), &n)); return n; }
    int64_t ndimension() const { return dim(); }
    int64_t numel() const { int64_t n; THIN_OK(aoti_torch_get_numel(get(), &n)); return n; }
    int64_t size(int64_t axis) const { return sizes()[axis < 0 ? axis + dim() : axis]; }
    int64_t stride(int64_t axis) const { return strides()[axis < 0 ? axis + dim() : axis]; }
    Sizes sizes() const { int64_t* p; THIN_OK(aoti_torch_get_sizes(get(), &p)); return {p, size_t(dim())}; }
    Sizes strides() const { int64_t* p; THIN_OK(aoti_torch_get_strides(get(), &p)); return {p, size_t(dim())}; }
    ScalarType scalar_type() const { int32_t t; THIN_OK(aoti_torch_get_dtype(get(), &t)); return ScalarType(t); }
    ScalarType dtype() const { return scalar_type(); }
    ScalarType type() const { return scalar_type(); }
    Device device() const {
        Device d;
        THIN_OK(aoti_torch_get_device_type(get(), &d.type));
        THIN_OK(aoti_torch_get_device_index(get(), &d.number));
        return d;
    }
    int32_t get_device() const { return device().number; }
    bool is_cuda() const { return device().is_cuda(); }
    bool is_cpu() const { return device().is_cpu(); }
    TensorOptions options() const { return {scalar_type(), device()}; }
    bool is_contiguous() const {
        int64_t step = 1;
        for (int64_t axis = dim() - 1; axis >= 0; --axis) {
            if (size(axis) != 1 && stride(axis) != step) return false;
            step *= size(axis);
        }
        return true;
    }
    void* data_ptr() const { void* p; THIN_OK(aoti_torch_get_data_ptr(get(), &p)); return p; }
    template <class T> T* data_ptr() const {
        TORCH_CHECK(scalar_type() == scalar_of<std::remove_const_t<T>>(), "another element type");
        return static_cast<T*>(data_ptr());
    }
    template <class T> const T* const_data_ptr() const { return data_ptr<T>(); }
    template <class T> T* mutable_data_ptr() const { return data_ptr<T>(); }
    Tensor contiguous() const;
    Tensor& zero_() { THIN_OK(aoti_torch_zero_(get())); return *this; }

private:
    std::shared_ptr<AtenTensorOpaque> handle_;
};

inline Tensor empty(Sizes sizes, TensorOptions options = {}) {
    std::vector<int64_t> strides(sizes.size());
    int64_t step = 1;
    for (size_t axis = sizes.size(); axis-- > 0; step *= std::max<int64_t>(sizes[axis], 1)) strides[axis] = step;
    AtenTensorHandle made;
    THIN_OK(aoti_torch_empty_strided(sizes.size(), sizes.data(), strides.data(), int32_t(options.type),
                                     options.place.type, options.place.number, &made));
    return Tensor(made);
}
inline Tensor zeros(Sizes sizes, TensorOptions options = {}) { return empty(sizes, options).zero_(); }
inline Tensor empty_like(const Tensor& t) {
    TORCH_CHECK(t.is_contiguous(), "contiguous");
    return empty(t.sizes(), t.options());
}
inline Tensor zeros_like(const Tensor& t) { return empty_like(t).zero_(); }
inline Tensor Tensor::contiguous() const {
    if (is_contiguous()) return *this;
    Tensor copy = empty(sizes(), options());
    THIN_OK(aoti_torch_copy_(copy.get(), get(), 0));
    return copy;
}
}  // namespace torch

namespace at {
using torch::Device, torch::ScalarType, torch::Tensor, torch::TensorOptions, torch::IntArrayRef;
using torch::empty, torch::empty_like, torch::zeros, torch::zeros_like;
using torch::kBFloat16, torch::kBool, torch::kFloat, torch::kHalf, torch::kInt, torch::kLong;
#ifdef __CUDACC__
namespace cuda {
inline cudaStream_t getCurrentCUDAStream(int32_t device = 0) {
    void* stream;
    THIN_OK(aoti_torch_get_current_cuda_stream(device, &stream));
    return static_cast<cudaStream_t>(stream);
}
}  // namespace cuda
#endif
}  // namespace at

#define THIN_CASE(scalar, name, ...) \
    case torch::scalar_of<name>(): { using scalar_t = name; return __VA_ARGS__(); }
#define THIN_DISPATCH(type, what, cases) \
    [&] { switch (type) { cases default: thin::refuse(what, "another element type"); } }()
#define AT_DISPATCH_FLOATING_TYPES(type, what, ...) \
    THIN_DISPATCH(type, what, THIN_CASE(type, float, __VA_ARGS__) THIN_CASE(type, double, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(type, what, ...) \
    THIN_DISPATCH(type, what, THIN_CASE(type, float, __VA_ARGS__) THIN_CASE(type, double, __VA_ARGS__) \
                              THIN_CASE(type, c10::Half, __VA_ARGS__))

// ---- calls from Python: arguments and results as plain values
namespace thin {
struct Value { int32_t kind; int32_t count; union { void* tensor; int64_t whole; double real; void** tensors; }; };
enum Kind { NOTHING, TENSOR, WHOLE, REAL, TENSORS };

template <class T> T taken(const Value& v) {
    if constexpr (std::is_same_v<T, torch::Tensor>) {
        if (v.kind != TENSOR) throw std::runtime_error("expected a tensor");
        return torch::Tensor(static_cast<AtenTensorHandle>(v.tensor));
    } else if constexpr (std::is_floating_point_v<T>) {
        if (v.kind != REAL && v.kind != WHOLE) throw std::runtime_error("expected a number");
        return v.kind == REAL ? T(v.real) : T(v.whole);
    } else {
        static_assert(std::is_integral_v<T>, "arguments are tensors and numbers");
        if (v.kind != WHOLE) throw std::runtime_error("expected a whole number");
        return T(v.whole);
    }
}
inline void* owned(const torch::Tensor& t) {
    AtenTensorHandle copy;
    THIN_OK(aoti_torch_new_tensor_handle(t.get(), &copy));
    return copy;
}
inline Value given(const torch::Tensor& t) { Value v{TENSOR, 1, {}}; v.tensor = owned(t); return v; }
inline Value given(int64_t n) { Value v{WHOLE, 1, {}}; v.whole = n; return v; }
inline Value given(double x) { Value v{REAL, 1, {}}; v.real = x; return v; }
inline Value given(const std::vector<torch::Tensor>& list) {
    Value v{TENSORS, int32_t(list.size()), {}};
    v.tensors = new void*[list.size()];
    for (size_t i = 0; i < list.size(); ++i) v.tensors[i] = owned(list[i]);
    return v;
}
template <class R, class... A, size_t... I>
Value called(R (*function)(A...), const Value* arguments, std::index_sequence<I...>) {
    if constexpr (std::is_void_v<R>) {
        function(taken<std::decay_t<A>>(arguments[I])...);
        return Value{NOTHING, 0, {}};
    } else {
        return given(function(taken<std::decay_t<A>>(arguments[I])...));
    }
}
template <class R, class... A>
int call(R (*function)(A...), const Value* arguments, int count, Value* result, char* message, int room) {
    try {
        if (count != int(sizeof...(A))) throw std::runtime_error("wrong number of arguments");
        *result = called(function, arguments, std::index_sequence_for<A...>());
        return 0;
    } catch (const std::exception& error) {
        std::snprintf(message, room, "%s", error.what());
        return 1;
    }
}
}  // namespace thin
#define THIN_EXPORT(name) \
    extern "C" int thin_##name(const thin::Value* a, int n, thin::Value* r, char* m, int room) { \
        return thin::call(&name, a, n, r, m, room); \
    }
