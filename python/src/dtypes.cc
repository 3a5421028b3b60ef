#include "dtypes.h"

#include <array>
#include <cstring>
#include <string>
#include <utility>

namespace sardonyx::python {
namespace {

namespace nb = nanobind;

constexpr std::array<ElementLayout, kDTypeCount> kLayouts = [] {
  std::array<ElementLayout, kDTypeCount> all{};
  auto set = [&](DType dtype, ElementLayout layout) { all[static_cast<size_t>(dtype)] = layout; };
  set(DType::kFloat32, {"float32", false, "float32"});
  set(DType::kUInt8, {"uint8", false, "uint8"});
  set(DType::kInt8, {"int8", false, "int8"});
  set(DType::kUInt16, {"uint16", false, "uint16"});
  set(DType::kInt16, {"int16", false, "int16"});
  set(DType::kInt32, {"int32", false, "int32"});
  set(DType::kInt64, {"int64", false, "int64"});
  set(DType::kBool, {"bool", false, "bool"});
  set(DType::kFloat16, {"float16", false, "float16"});
  set(DType::kFloat64, {"float64", false, "float64"});
  set(DType::kUInt32, {"uint32", false, "uint32"});
  set(DType::kUInt64, {"uint64", false, "uint64"});
  set(DType::kComplex64, {"complex64", false, "complex64"});
  set(DType::kComplex128, {"complex128", false, "complex128"});
  set(DType::kBFloat16, {"bfloat16", true, "uint16"});
  set(DType::kFloat8E4M3FN, {"float8_e4m3fn", true, "uint8"});
  set(DType::kFloat8E4M3FNUZ, {"float8_e4m3fnuz", true, "uint8"});
  set(DType::kFloat8E5M2, {"float8_e5m2", true, "uint8"});
  set(DType::kFloat8E5M2FNUZ, {"float8_e5m2fnuz", true, "uint8"});
  set(DType::kFloat8E8M0, {"float8_e8m0fnu", true, "uint8"});
  set(DType::kUInt4, {"uint4", true, "uint8"});
  set(DType::kInt4, {"int4", true, "uint8"});
  set(DType::kFloat4E2M1, {"float4_e2m1fn", true, "uint8"});
  set(DType::kUInt2, {"uint2", true, "uint8"});
  set(DType::kInt2, {"int2", true, "uint8"});
  set(DType::kFloat6E2M3, {"float6_e2m3fn", true, "uint8"});
  set(DType::kFloat6E3M2, {"float6_e3m2fn", true, "uint8"});
  return all;
}();

// Python objects that live as long as the interpreter; never freed, since the order in which
// modules go at exit is not ours.
struct Table {
  nb::dict codes;
  std::array<nb::object, kDTypeCount> dtypes;
  bool has_ml_dtypes = false;

  // The types of one of the two packages.
  void Add(nb::module_ package, bool is_ml_dtypes) {
    nb::object to_dtype = nb::module_::import_("numpy").attr("dtype");
    for (int code = 1; code < kDTypeCount; ++code) {
      const ElementLayout& layout = kLayouts[code];
      if (layout.numpy == nullptr || layout.from_ml_dtypes != is_ml_dtypes) continue;
      // Older releases of ml_dtypes have no types of 2 or 6 bits.
      if (is_ml_dtypes && !nb::hasattr(package, layout.numpy)) continue;
      nb::object dtype = to_dtype(is_ml_dtypes ? nb::object(package.attr(layout.numpy))
                                               : nb::object(nb::str(layout.numpy)));
      codes[dtype] = nb::int_(code);
      dtypes[code] = dtype;
    }
  }

  // Importing ml_dtypes takes milliseconds, which a model of floats need not pay.
  void NeedMlDtypes() {
    if (std::exchange(has_ml_dtypes, true)) return;
    Add(nb::module_::import_("ml_dtypes"), true);
  }
};

Table* MakeTable() {
  auto* table = new Table;
  nb::module_ numpy = nb::module_::import_("numpy");
  table->Add(numpy, false);
  // C has two names for some widths, and NumPy a dtype for each.
  for (const char* alias : {"longlong", "ulonglong", "intc", "uintc"}) {
    nb::object dtype = numpy.attr("dtype")(alias);
    const bool is_unsigned = alias[0] == 'u';
    const auto size = nb::cast<int>(dtype.attr("itemsize"));
    const DType code = size == 8 ? (is_unsigned ? DType::kUInt64 : DType::kInt64)
                                 : (is_unsigned ? DType::kUInt32 : DType::kInt32);
    if (!table->codes.contains(dtype)) table->codes[dtype] = nb::int_(static_cast<int>(code));
  }
  table->dtypes[static_cast<int>(DType::kString)] = numpy.attr("dtype")("object");
  return table;
}

Table& GetTable() {
  static Table* const table = MakeTable();
  return *table;
}

}  // namespace

const ElementLayout& LayoutOf(DType dtype) { return kLayouts[static_cast<size_t>(dtype)]; }

nb::dict DtypeCodes() {
  GetTable().NeedMlDtypes();
  return GetTable().codes;
}

nb::object DtypeOf(DType dtype) {
  if (LayoutOf(dtype).from_ml_dtypes) GetTable().NeedMlDtypes();
  const nb::object& found = GetTable().dtypes[static_cast<size_t>(dtype)];
  if (!found.is_valid()) {
    throw Error(ErrorCode::kUnsupported, "NumPy arrays of " + std::string(DTypeName(dtype)) +
                                             " need a newer release of the package ml_dtypes");
  }
  return found;
}

DType DTypeOfNumpy(nb::handle dtype) {
  // Most arrays have one of NumPy's own objects: no need to hash it.
  const auto& dtypes = GetTable().dtypes;
  for (const DType common : {DType::kFloat32, DType::kInt64}) {
    if (dtype.is(dtypes[static_cast<size_t>(common)])) return common;
  }
  PyObject* code = PyDict_GetItemWithError(GetTable().codes.ptr(), dtype.ptr());
  if (code == nullptr && PyErr_Occurred() == nullptr && !GetTable().has_ml_dtypes) {
    GetTable().NeedMlDtypes();
    code = PyDict_GetItemWithError(GetTable().codes.ptr(), dtype.ptr());
  }
  if (code == nullptr) {
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    return DType::kUndefined;
  }
  return static_cast<DType>(PyLong_AsLong(code));
}

}  // namespace sardonyx::python
