{{- define "tierwise.labels" -}}
app.kubernetes.io/name: tierwise
app.kubernetes.io/part-of: tierwise
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "tierwise.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* The scheduler's configuration: the default profile where nobody gives another. */}}
{{- define "tierwise.configuration" -}}
{{ .Values.schedulerConfig | default (.Files.Get "files/scheduler.conf") }}
{{- end }}

{{/* The components that are installed, with the arguments of each. */}}
{{- define "tierwise.components" -}}
scheduler:
  args: [run, --in-cluster, --no-controllers, --listen, "0.0.0.0:8080", --log-level, {{ .Values.logLevel }}
    {{- range .Values.schedulerNames }}, --scheduler-name, {{ . }}{{ end }}
, --config, /etc/tierwise/scheduler.conf
    {{- with .Values.scheduler.defrag }}{{ if .rooms }}{{ range .rooms }}, --defrag, {{ . | quote }}{{ end }}, --defrag-every, {{ .every | quote }}, --defrag-moves, {{ .movesPerHour | quote }}, --defrag-hours, {{ .hoursPerHour | quote }}{{ end }}{{ end }}
    {{- with .Values.scheduler.journal }}{{ if .enabled }}, --journal, /var/lib/tierwise/journal, --journal-size, {{ .sizeMiB | quote }}{{ end }}{{ end }}
    {{- with .Values.answers }}{{ if .enabled }}, --answers, "0.0.0.0:8444", --answers-tls, /run/answers
    {{- with .audience }}, --answers-audience, {{ . | quote }}{{ end }}{{ end }}{{ end }}]
{{- if .Values.controllers.enabled }}
controllers:
  args: [controllers, --in-cluster, --listen, "0.0.0.0:8080", --log-level, {{ .Values.logLevel }}
    {{- if .Values.discovery.files }}, --discovery-files, /etc/tierwise/discovery{{ end }}
    {{- if .Values.controllers.sshKeys }}, --job-ssh{{ end }}]
{{- end }}
{{- if .Values.webhook.enabled }}
webhook:
  args: [webhook, --in-cluster, --listen, "0.0.0.0:8080", --log-level, {{ .Values.logLevel }}, --tls-folder, /run/tls
    {{- if eq .Values.webhook.certificate "self-signed" }}, --self-signed{{ end }}]
{{- end }}
{{- end }}

{{/* The programs that run on nodes, of those that are asked for. */}}
{{- define "tierwise.programs" -}}
{{- with .Values.nodePrograms }}
{{- if .probe.enabled }}
probe:
  args: [probe, --in-cluster, --answer, --host, $(HOST_IP), --namespace, {{ .probe.configMapNamespace }}
    {{- with .probe.interval }}, --interval, {{ . | quote }}{{ end }}]
  resources: {{ toYaml .probe.resources | nindent 4 }}
{{- end }}
{{- if .advertiseBandwidth.enabled }}
advertise-bandwidth:
  args: [advertise-bandwidth, --in-cluster
    {{- with .advertiseBandwidth.interface }}, --interface, {{ . }}{{ end }}
    {{- with .advertiseBandwidth.speed }}, --speed, {{ . | quote }}{{ end }}]
  resources: {{ toYaml .advertiseBandwidth.resources | nindent 4 }}
{{- end }}
{{- end }}
{{- end }}
