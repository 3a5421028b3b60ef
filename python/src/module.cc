// The extension module sardonyx._sardonyx.

#include "dtypes.h"
#include "errors.h"
#include "nanobind/nanobind.h"
#include "nanobind/stl/pair.h"
#include "nanobind/stl/string.h"
#include "nanobind/stl/string_view.h"
#include "nanobind/stl/vector.h"
#include "sardonyx/sardonyx.hpp"
#include "session.h"
#include "values.h"

namespace nb = nanobind;

NB_MODULE(_sardonyx, module) {
  using namespace sardonyx;  // NOLINT: the module is nothing but the engine's names
  // Arrays that outlive the interpreter's modules keep their capsules: no leak of ours.
  nb::set_leak_warnings(false);
  python::RegisterErrors(module);
  python::BindValues(module);
  python::BindSession(module);
  module.attr("__version__") = std::string(Version());
  module.def("compile", &python::CompileModel);
  module.def("inspect", &python::InspectModel);
  module.def("passes", &PassNames);
  module.def("supports", &Supports);
  module.def("target", &TargetName);
  module.def("dtype_by_name", [](std::string_view name) -> nb::object {
    const DType dtype = DTypeByName(name);
    if (dtype == DType::kUndefined) return nb::none();
    return python::DtypeOf(dtype);
  });
  module.def("is_element_type",
             [](nb::handle dtype) { return python::DTypeOfNumpy(dtype) != DType::kUndefined; });
  module.def("read_protobuf", [](nb::bytes bytes, std::string_view type) {
    return python::ToPython(ReadProtobuf(std::string_view(bytes.c_str(), bytes.size()), type));
  });
}
