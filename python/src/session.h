#pragma once
// The classes Options and Session of the module, on which sardonyx/session.py stands.

#include <string>

#include "nanobind/nanobind.h"

namespace sardonyx::python {

void BindSession(nanobind::module_& module);
// ModelSummary as a dict.
nanobind::dict InspectModel(const std::string& path);

}  // namespace sardonyx::python
