{{- define "statecore.image" }}{{ .Values.image.repository }}:{{ or .Values.image.tag .Chart.AppVersion }}{{ end }}

{{- define "statecore.pod" }}
      automountServiceAccountToken: false
      securityContext:
        runAsNonRoot: true
        runAsUser: 10001
        runAsGroup: 10001
        fsGroup: 10001
        seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "statecore.restricted" }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
{{- end }}

{{- define "statecore.process" }}
          image: "{{ template "statecore.image" . }}"
          envFrom:
            - configMapRef: {name: statecore}
            - secretRef: {name: {{ .Values.secret }}}
{{- template "statecore.restricted" . }}
{{- end }}

{{- define "statecore.mounts" }}
          volumeMounts:
            - {name: home, mountPath: /var/lib/statecore}
            - {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "statecore.volumes" }}
      volumes:
        - {name: home, emptyDir: {}}
        - {name: tmp, emptyDir: {}}
{{- end }}

{{- /* Prometheus connects to the address of the pod, which is its Host. */}}
{{- define "statecore.addressed" }}
          env:
            - name: POD_IP
              valueFrom: {fieldRef: {fieldPath: status.podIP}}
            - {name: STATECORE_ALLOWED_HOSTS, value: "{{ .Values.host }},$(POD_IP),[$(POD_IP)]"}
{{- end }}

{{- /* Serves the metrics of the other process in the pod: they share a folder of counters. */}}
{{- define "statecore.metrics" }}
        - name: metrics
          args: [rest, --port, "8001"]
          ports: [{name: metrics, containerPort: 8001}]
{{- template "statecore.process" . }}
{{- template "statecore.addressed" . }}
          livenessProbe:
            httpGet:
              path: /healthz
              port: metrics
              httpHeaders: [{name: Host, value: localhost}]
            initialDelaySeconds: 30
            periodSeconds: 10
            timeoutSeconds: 5
          resources:
            requests: {cpu: 50m, memory: 192Mi}
            limits: {memory: 1Gi}
{{- template "statecore.mounts" . }}
{{- end }}
