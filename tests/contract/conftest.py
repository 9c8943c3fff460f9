"""Assertions of the shared suite say what they compared."""

import pytest

pytest.register_assert_rewrite("tests.contract.suite")
