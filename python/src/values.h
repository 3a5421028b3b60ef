#pragma once
// Values between Python and the engine: NumPy arrays share their memory both ways where the layouts
// agree.

#include <string>
#include <string_view>

#include "nanobind/nanobind.h"
#include "sardonyx/sardonyx.hpp"

namespace sardonyx::python {

// The value of the input `name`, whose declared type is as in ValueInfo (empty: not known). A NumPy
// array of a type of ONNX is taken as it is, without a copy if it is contiguous and aligned.
// Anything else first passes through sardonyx._convert.prepare(value, declared, name), which turns
// it into arrays, lists, dicts and None, or raises.
Datum FromPython(nanobind::handle value, const std::string& declared, const std::string& name);

// Arrays own a share of the tensor's memory; sequences are lists, maps are dicts, nothing is None.
nanobind::object ToPython(const Datum& datum);

// The bytes of a str, in which lone surrogates stand for bytes that are no UTF-8, as os.fsdecode
// and TextOf make them; and back.
std::string BytesOf(nanobind::handle text);
nanobind::str TextOf(std::string_view bytes);

// The type of what arrays share their memory with.
void BindValues(nanobind::module_& module);

}  // namespace sardonyx::python
