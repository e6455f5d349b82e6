#!/bin/sh
# Generates daemonset.yaml from the Helm chart. Needs helm 3 or newer, in PATH or in the variable HELM.
# The test in packaging/container compares the file with the output.
#
#   packaging/kubernetes/render.sh > packaging/kubernetes/daemonset.yaml
set -eu
chart=$(dirname "$0")/../helm/gpuyard
cat <<'TEXT'
# gpuyard on every node with GPUs. Written by render.sh from the Helm chart: change the chart, not this.
#
#   kubectl apply -f daemonset.yaml
#
# Set your registry in the three `image:` lines first. See docs/containers.md.
TEXT
# The version is given, because a helm that was built by hand assumes Kubernetes 1.20.
"${HELM:-helm}" template gpuyard "$chart" --namespace gpuyard --set createNamespace=true \
  --kube-version 1.30.0 |
  grep -v '^# Source: '
