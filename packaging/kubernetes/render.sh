#!/bin/sh
# Generates the manifests from the Helm chart: daemonset.yaml; with `agent` daemonset_agent.yaml, which also
# has the Kubernetes agent; with `restart` agent_restart.yaml, the rights for restarting the device plugin.
# Needs helm 3 or newer, in PATH or in the variable HELM. A test in packaging/container compares the files
# with the output.
#
#   packaging/kubernetes/render.sh > packaging/kubernetes/daemonset.yaml
#   packaging/kubernetes/render.sh agent > packaging/kubernetes/daemonset_agent.yaml
#   packaging/kubernetes/render.sh restart > packaging/kubernetes/agent_restart.yaml
set -eu
chart=$(dirname "$0")/../helm/gpuyard
plugin=gpu-operator/app=nvidia-device-plugin-daemonset

# The version is given, because a helm that was built by hand assumes Kubernetes 1.20. Without hooks:
# `kubectl apply` would run the one that follows an uninstall at once.
render() {
  "${HELM:-helm}" template gpuyard "$chart" --namespace gpuyard --no-hooks --kube-version 1.30.0 "$@" |
    grep -v '^# Source: '
}

if [ "${1:-}" = restart ]; then
  cat <<TEXT
# What the agent may do in addition with \`--restart-plugin $plugin\`. Written by
# render.sh from the Helm chart: change the chart, not this.
#
#   kubectl apply -f agent_restart.yaml
#
# Then add the two words to the args of the container \`agent\` in daemonset_agent.yaml. See docs/containers.md.
#
# It is for an installation in the namespace gpuyard. For another, change the namespace of the RoleBinding's subject
# and the account in the policy's matchConditions; for another plugin, the namespace and the label in all objects.
TEXT
  render --set kube.enabled=true --set "kube.restartPlugin=$plugin" --show-only templates/agent_restart.yaml
  exit
fi

case ${1:-} in
  '') name=daemonset.yaml images=three what='gpuyard on every node with GPUs.' agent=false ;;
  agent) name=daemonset_agent.yaml images=four what="gpuyard and its Kubernetes agent on every node with GPUs." agent=true ;;
  *) echo "usage: packaging/kubernetes/render.sh [agent|restart]" >&2; exit 2 ;;
esac
cat <<TEXT
# $what Written by render.sh from the Helm chart: change the chart, not this.
#
#   kubectl apply -f $name
#
# Set your registry in the $images \`image:\` lines first. See docs/containers.md.
TEXT
render --set createNamespace=true --set kube.enabled=$agent
