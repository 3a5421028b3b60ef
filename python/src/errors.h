#pragma once
// sardonyx::Error as the exception classes of sardonyx/errors.py.

#include "nanobind/nanobind.h"

namespace sardonyx::python {

void RegisterErrors(nanobind::module_& module);

}  // namespace sardonyx::python
