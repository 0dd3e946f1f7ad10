{{- define "memorist.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "memorist.labels" -}}
{{ include "memorist.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "memorist.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* "true" with PostgreSQL, empty with the SQLite file. */ -}}
{{- define "memorist.postgres" -}}
{{- if or .Values.database.existingSecret .Values.database.url -}}true{{- end -}}
{{- end -}}

{{- define "memorist.databaseSecret" -}}
{{- .Values.database.existingSecret | default (printf "%s-database" (include "memorist.name" .)) -}}
{{- end -}}

{{- /* "true" if there may be more than one server. */ -}}
{{- define "memorist.several" -}}
{{- if and (include "memorist.postgres" .) (or .Values.autoscaling.enabled (gt (int .Values.replicas) 1)) -}}true{{- end -}}
{{- end -}}

{{- /* Migrations run before the resources of a first installation exist: their addresses are in a secret of their own. */ -}}
{{- define "memorist.migrationSecret" -}}
{{- .Values.database.existingSecret | default (printf "%s-migrate" (include "memorist.name" .)) -}}
{{- end -}}

{{- define "memorist.hosts" -}}
{{- $name := include "memorist.name" . -}}
{{- $hosts := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) -}}
{{- if .Values.ingress.enabled -}}{{- $hosts = append $hosts .Values.ingress.host -}}{{- end -}}
{{- join "," (concat $hosts .Values.allowedHosts) -}}
{{- end -}}

{{- /* The fields of every container: its image and what it may do. */ -}}
{{- define "memorist.confined" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
volumeMounts:
  - name: data
    mountPath: /data
  - name: tmp
    mountPath: /tmp
{{- end -}}

{{- define "memorist.container" -}}
{{ include "memorist.confined" . }}
{{- if or .Values.secrets .Values.existingSecret }}
envFrom:
  {{- if .Values.secrets }}
  - secretRef:
      name: {{ include "memorist.name" . }}-environment
  {{- end }}
  {{- if .Values.existingSecret }}
  - secretRef:
      name: {{ .Values.existingSecret }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "memorist.env" -}}
{{ if include "memorist.postgres" . -}}
- name: MEMORIST_DATABASE
  valueFrom:
    secretKeyRef:
      name: {{ include "memorist.databaseSecret" . }}
      key: url
- name: MEMORIST_READ_DATABASE
  valueFrom:
    secretKeyRef:
      name: {{ include "memorist.databaseSecret" . }}
      key: read-url
      optional: true
{{ end -}}
- name: MEMORIST_AUTH
  value: keys
- name: MEMORIST_ALLOWED_HOSTS
  value: {{ include "memorist.hosts" . | quote }}
{{- range $name, $value := .Values.settings }}
- name: MEMORIST_{{ upper $name }}
  value: {{ if kindIs "string" $value }}{{ quote $value }}{{ else }}{{ $value | toJson | quote }}{{ end }}
{{- end }}
{{- end -}}

{{- /* The fields of every pod, without its containers. */ -}}
{{- define "memorist.pod" -}}
automountServiceAccountToken: false
# Kubernetes would set MEMORIST_PORT to the address of a service named memorist.
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
volumes:
  - name: tmp
    emptyDir: {}
  - name: data
    {{- if include "memorist.postgres" . }}
    emptyDir: {}
    {{- else }}
    persistentVolumeClaim:
      claimName: {{ .Values.persistence.existingClaim | default (include "memorist.name" .) }}
    {{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- end -}}
