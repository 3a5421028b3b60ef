from hypothesis import settings

pytest_plugins = ["tests.backend.coverage_plugin"]

# The same examples in every run: what fails in one fails in the next.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
