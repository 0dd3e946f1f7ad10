{{- define "retain.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "retain.labels" -}}
{{ include "retain.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "retain.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* "true" with PostgreSQL, empty with the SQLite file. */ -}}
{{- define "retain.postgres" -}}
{{- if or .Values.database.existingSecret .Values.database.url -}}true{{- end -}}
{{- end -}}

{{- define "retain.databaseSecret" -}}
{{- .Values.database.existingSecret | default (printf "%s-database" (include "retain.name" .)) -}}
{{- end -}}

{{- define "retain.hosts" -}}
{{- $name := include "retain.name" . -}}
{{- $hosts := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) -}}
{{- if .Values.ingress.enabled -}}{{- $hosts = append $hosts .Values.ingress.host -}}{{- end -}}
{{- join "," (concat $hosts .Values.allowedHosts) -}}
{{- end -}}

{{- /* The fields of every container: its image, its environment and what it may do. */ -}}
{{- define "retain.container" -}}
image: {{ printf "%s:%s" .Values.image.repository .Values.image.tag | quote }}
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
{{- if or .Values.secrets .Values.existingSecret }}
envFrom:
  {{- if .Values.secrets }}
  - secretRef:
      name: {{ include "retain.name" . }}-environment
  {{- end }}
  {{- if .Values.existingSecret }}
  - secretRef:
      name: {{ .Values.existingSecret }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "retain.env" -}}
{{ if include "retain.postgres" . -}}
- name: RETAIN_DATABASE
  valueFrom:
    secretKeyRef:
      name: {{ include "retain.databaseSecret" . }}
      key: url
- name: RETAIN_READ_DATABASE
  valueFrom:
    secretKeyRef:
      name: {{ include "retain.databaseSecret" . }}
      key: read-url
      optional: true
{{ end -}}
- name: RETAIN_AUTH
  value: keys
- name: RETAIN_ALLOWED_HOSTS
  value: {{ include "retain.hosts" . | quote }}
{{- range $name, $value := .Values.settings }}
- name: RETAIN_{{ upper $name }}
  value: {{ if kindIs "string" $value }}{{ quote $value }}{{ else }}{{ $value | toJson | quote }}{{ end }}
{{- end }}
{{- end -}}

{{- /* The fields of every pod, without its containers. */ -}}
{{- define "retain.pod" -}}
automountServiceAccountToken: false
# Kubernetes would set RETAIN_PORT to the address of a service named retain.
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
    {{- if include "retain.postgres" . }}
    emptyDir: {}
    {{- else }}
    persistentVolumeClaim:
      claimName: {{ .Values.persistence.existingClaim | default (include "retain.name" .) }}
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
