#pragma once
// The classes Options and Session of the module, on which sardonyx/session.py stands.

#include <string>
#include <vector>

#include "nanobind/nanobind.h"
#include "sardonyx/sardonyx.hpp"

namespace sardonyx::python {

void BindSession(nanobind::module_& module);
// Compile of the C++ interface.
void CompileModel(const nanobind::str& model, const nanobind::str& engine, const Options& options,
                  const std::vector<NamedShapes>& shapes, bool compact);
// ModelSummary as a dict.
nanobind::dict InspectModel(const nanobind::str& path);

}  // namespace sardonyx::python
