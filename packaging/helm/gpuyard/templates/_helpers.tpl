{{- define "gpuyard.name" -}}
{{- if contains "gpuyard" .Release.Name -}}
{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-gpuyard" .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "gpuyard.selector" -}}
app.kubernetes.io/name: gpuyard
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "gpuyard.labels" -}}
{{ include "gpuyard.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
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
