import subprocess
import sys

SCRIPT = """
from labkit import compat
torchvision = compat.torchvision()
from torchvision import datasets, models, transforms
import torch
image = transforms.functional.to_pil_image(torch.rand(3, 8, 8))
assert transforms.ToTensor()(image).shape == (3, 8, 8)
assert compat.torchvision() is torchvision
print(torchvision.__version__)
"""


def test_torchvision_imports_in_a_fresh_process():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("0.28")
