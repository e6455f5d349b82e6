#!/bin/sh
# Writes daemonset.yaml from the Helm chart, so that nothing is said twice. Needs helm 3 or newer, in PATH
# or named by HELM. The test in packaging/container compares the file with what this prints.
#
#   packaging/kubernetes/render.sh > packaging/kubernetes/daemonset.yaml
set -eu
chart=$(dirname "$0")/../helm/gpuyard
cat <<'TEXT'
# gpuyard on every node with GPUs. Written by render.sh from the Helm chart: change the chart, not this.
#
#   kubectl apply -f daemonset.yaml
#
# Name your registry in the three `image:` lines first. docs/containers.md says what is what.
TEXT
# The version is said, since a helm that was built by hand takes Kubernetes 1.20 for granted.
"${HELM:-helm}" template gpuyard "$chart" --namespace gpuyard --set createNamespace=true \
  --kube-version 1.30.0 |
  grep -v '^# Source: '
