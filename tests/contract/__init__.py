import pytest

pytest.register_assert_rewrite("contract.suite", "contract.matrices")
