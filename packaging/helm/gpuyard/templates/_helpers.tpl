{{- define "gpuyard.name" -}}
{{- if contains "gpuyard" .Release.Name -}}
{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-gpuyard" .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "gpuyard.selector" -}}
app.kubernetes.io/name: gpuyard
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "gpuyard.labels" -}}
{{ include "gpuyard.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{/* The name of objects that belong to no namespace: releases of one name in two namespaces do not share them. */}}
{{- define "gpuyard.clusterName" -}}
{{- $name := include "gpuyard.name" . -}}
{{ eq $name .Release.Namespace | ternary $name (printf "%s-%s" .Release.Namespace $name) }}-agent
{{- end -}}

{{- define "gpuyard.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* The daemon's user: the image's own, or root where settings may be changed. */}}
{{- define "gpuyard.user" -}}
{{ if .Values.control.enabled }}0{{ else }}60941{{ end }}
{{- end -}}

{{/* Simulated GPUs have their own state, so that it does not mix with that of real ones. */}}
{{- define "gpuyard.state" -}}
{{ .Values.hostPaths.state }}{{ if .Values.simulate }}-simulated{{ end }}
{{- end -}}

{{/*
gpuyard.toml: the values of the chart, overridden by `config`. The allowed values are written the same in
TOML and JSON; Helm's own toToml writes integers as 4.0, which is a float in TOML.
*/}}
{{- define "gpuyard.config" -}}
{{- $tls := dict "listen" list -}}
{{- if .Values.tls.enabled -}}
{{- $tls = dict "listen" (list (printf "0.0.0.0:%d" (int .Values.tls.port))) "anonymous" .Values.tls.anonymous -}}
{{- if .Values.tls.secretName -}}
{{- $tls = merge $tls (dict "certificate" "/etc/gpuyard-tls/tls.crt" "key" "/etc/gpuyard-tls/tls.key") -}}
{{- end -}}
{{- if .Values.tls.clients -}}
{{- $tls = merge $tls (dict "client_ca" "/etc/gpuyard-tls/ca.crt" "clients" .Values.tls.clients) -}}
{{- end -}}
{{- end -}}
{{- $server := dict "listen" (list "127.0.0.1:9410") "lease_socket" "/run/gpuyard/lease/lease.sock" -}}
{{- $ours := dict
  "server" $server
  "tls" $tls
  "control" (dict "enabled" .Values.control.enabled)
  "events" (dict "kernel_log" "") -}}
{{- range $section, $keys := mergeOverwrite $ours (deepCopy .Values.config) }}
[{{ $section }}]
{{- range $key, $value := $keys }}
{{ $key }} = {{ toJson $value }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
SYS_ADMIN only if settings may be changed. Root, because Kubernetes gives capabilities to no other user.
*/}}
{{- define "gpuyard.securityContext" -}}
runAsUser: {{ include "gpuyard.user" . }}
runAsGroup: {{ include "gpuyard.user" . }}
runAsNonRoot: {{ not .Values.control.enabled }}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
  {{- if .Values.control.enabled }}
  add: [SYS_ADMIN]
  {{- end }}
{{- end -}}

{{/* With the agent, those of the values and its own taint: a pod that is restarted returns to its node. */}}
{{- define "gpuyard.tolerations" -}}
{{- $ours := .Values.kube.enabled | ternary (list (dict "key" "gpuyard.io/gpu-sick" "operator" "Exists")) list -}}
{{ toYaml (concat (.Values.tolerations | default list) $ours) }}
{{- end -}}

{{/* The claim is in tokens that are bound to a pod or to a Node. */}}
{{- define "gpuyard.nodeOfToken" -}}
- name: node
  expression: >-
    request.userInfo.?extra[?'authentication.kubernetes.io/node-name'].orValue([]).size() == 1 ?
    request.userInfo.extra['authentication.kubernetes.io/node-name'][0] : ''
{{- end -}}

{{- define "gpuyard.tokenHasNode" -}}
- expression: variables.node != ''
  message: the agent's token must have the claim authentication.kubernetes.io/node-name
  reason: Forbidden
{{- end -}}

{{/* The taint of a cordoned GPU never has the effect NoExecute. */}}
{{- define "gpuyard.ruleEffects" -}}
['None'
{{- if ne .Values.kube.effect "None" }}, 'NoSchedule'{{ end }}
{{- if eq .Values.kube.effect "NoExecute" }}, 'NoExecute'{{ end }}]
{{- end -}}

{{/* A failed Job stays, so that its log can be read. What gives it rights goes in both cases. */}}
{{- define "gpuyard.withdrawHook" -}}
helm.sh/hook: post-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}
