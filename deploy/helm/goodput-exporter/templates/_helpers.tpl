{{- define "goodput-exporter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "goodput-exporter.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "goodput-exporter.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "goodput-exporter.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "goodput-exporter.selectorLabels" -}}
app.kubernetes.io/name: {{ include "goodput-exporter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "goodput-exporter.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "goodput-exporter.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: exporter
app.kubernetes.io/part-of: goodput-exporter
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "goodput-exporter.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "goodput-exporter.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "goodput-exporter.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Loopback, the default, where the senders are in the same pod; every interface where they are not. */}}
{{- define "goodput-exporter.config" -}}
{{- $needed := dict "receive" (dict "grpc" "127.0.0.1:4317" "http" "127.0.0.1:4318") }}
{{- if eq .Values.mode "deployment" }}
{{- $needed = dict "receive" (dict "grpc" ":4317" "http" ":4318") "stop" (dict "grace" "40s") }}
{{- end }}
{{- mergeOverwrite $needed (deepCopy .Values.config) | toYaml }}
{{- end }}

{{- define "goodput-exporter.slo" -}}
{{ .Values.slo | default (.Files.Get "files/slo.yaml") | trimSuffix "\n" }}
{{- end }}

{{/* What a pod template is annotated with, so that a change of the files starts new pods. */}}
{{- define "goodput-exporter.checksum" -}}
checksum/config: {{ printf "%s\n%s" (include "goodput-exporter.config" .) (include "goodput-exporter.slo" .) | sha256sum }}
{{- end }}

{{- define "goodput-exporter.volumes" -}}
- name: goodput
  configMap: {name: {{ include "goodput-exporter.fullname" . }}}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The container, but for what differs between the modes. */}}
{{- define "goodput-exporter.container" -}}
image: {{ include "goodput-exporter.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args:
- serve
- --config.file=/etc/goodput/config.yaml
- --slo.file=/etc/goodput/slo.yaml
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- with .Values.extraEnv }}
env:
{{ toYaml . }}
{{- end }}
startupProbe:
  {{- toYaml .Values.startupProbe | nindent 2 }}
readinessProbe:
  {{- toYaml .Values.readinessProbe | nindent 2 }}
livenessProbe:
  {{- toYaml .Values.livenessProbe | nindent 2 }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
- {name: goodput, mountPath: /etc/goodput, readOnly: true}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The exporter as a native sidecar, an element of initContainers. For charts of your own: include it, and the volumes. */}}
{{- define "goodput-exporter.sidecar" -}}
name: goodput-exporter
restartPolicy: Always
ports:
- {name: goodput, containerPort: 9464}
securityContext:
  {{- toYaml (merge (deepCopy .Values.securityContext) .Values.podSecurityContext) | nindent 2 }}
{{ include "goodput-exporter.container" . }}
{{- end }}
