pytest_plugins = ["tests.backend.coverage_plugin"]
