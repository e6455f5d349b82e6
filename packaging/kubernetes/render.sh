#!/bin/sh
# Generates the manifests from the Helm chart: daemonset.yaml, and with `agent` daemonset_agent.yaml, which
# also has the Kubernetes agent. Needs helm 3 or newer, in PATH or in the variable HELM. A test in
# packaging/container compares the files with the output.
#
#   packaging/kubernetes/render.sh > packaging/kubernetes/daemonset.yaml
#   packaging/kubernetes/render.sh agent > packaging/kubernetes/daemonset_agent.yaml
set -eu
chart=$(dirname "$0")/../helm/gpuyard
case ${1:-} in
  '') name=daemonset.yaml images=three what='gpuyard on every node with GPUs.' agent=false ;;
  agent) name=daemonset_agent.yaml images=four what="gpuyard and its Kubernetes agent on every node with GPUs." agent=true ;;
  *) echo "usage: packaging/kubernetes/render.sh [agent]" >&2; exit 2 ;;
esac
cat <<TEXT
# $what Written by render.sh from the Helm chart: change the chart, not this.
#
#   kubectl apply -f $name
#
# Set your registry in the $images \`image:\` lines first. See docs/containers.md.
TEXT
# The version is given, because a helm that was built by hand assumes Kubernetes 1.20. Without hooks:
# `kubectl apply` would run the one that follows an uninstall at once.
"${HELM:-helm}" template gpuyard "$chart" --namespace gpuyard --set createNamespace=true \
  --set kube.enabled=$agent --no-hooks --kube-version 1.30.0 |
  grep -v '^# Source: '
