import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import statecore.kernel.clock
import statecore.kernel.fields
import statecore.kernel.ids
import statecore.kernel.validation
import statecore.machines.task


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Numbering",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("head", models.BigIntegerField(default=0)),
                ("seen", models.TextField(default="")),
                ("cluster", models.CharField(default="", max_length=32)),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="Patch",
            fields=[
                ("id", statecore.kernel.ids.IdField(max_length=64, primary_key=True, serialize=False)),
                ("title", models.CharField(blank=True, max_length=200)),
                ("diff", models.TextField()),
                ("created_at", models.DateTimeField(default=statecore.kernel.clock.now, editable=False)),
            ],
            options={
                "verbose_name_plural": "patches",
            },
        ),
        migrations.CreateModel(
            name="Phase",
            fields=[
                ("id", statecore.kernel.ids.IdField(max_length=64, primary_key=True, serialize=False)),
                ("title", models.CharField(blank=True, max_length=200)),
                (
                    "allowed_paths",
                    models.JSONField(
                        blank=True, default=list, validators=[statecore.kernel.validation.validate_word_list]
                    ),
                ),
                (
                    "forbidden_paths",
                    models.JSONField(
                        blank=True, default=list, validators=[statecore.kernel.validation.validate_word_list]
                    ),
                ),
                ("created_at", models.DateTimeField(default=statecore.kernel.clock.now, editable=False)),
            ],
        ),
        migrations.CreateModel(
            name="Seal",
            fields=[
                ("last_position", models.BigIntegerField(primary_key=True, serialize=False)),
                ("first_position", models.BigIntegerField(unique=True)),
                ("root", models.CharField(max_length=64)),
                ("prev_hash", models.CharField(max_length=64)),
                ("hash", models.CharField(max_length=64)),
                ("sealed_at", models.DateTimeField()),
            ],
            options={
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="SinkCursor",
            fields=[
                ("sink", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("position", models.BigIntegerField(default=0)),
                ("revision", models.PositiveIntegerField(default=0)),
            ],
            options={
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="AgentJob",
            fields=[
                (
                    "id",
                    statecore.kernel.ids.IdField(
                        max_length=64,
                        primary_key=True,
                        serialize=False,
                        validators=[django.core.validators.RegexValidator("^[A-Za-z0-9._:-]{1,64}\\Z")],
                    ),
                ),
                ("version", models.PositiveIntegerField(default=0, editable=False)),
                ("chain_head", models.CharField(editable=False, max_length=64)),
                ("attempt", models.PositiveIntegerField(default=0, editable=False)),
                ("created_at", models.DateTimeField(db_index=True, editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
                ("state_entered_at", models.DateTimeField(editable=False)),
                (
                    "metadata",
                    models.JSONField(
                        blank=True, default=dict, validators=[statecore.kernel.validation.validate_json_object]
                    ),
                ),
                (
                    "state",
                    statecore.kernel.fields.StateField(
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("waiting", "waiting"),
                            ("parked", "parked"),
                            ("retrying", "retrying"),
                            ("completed", "completed"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                        ],
                        default="queued",
                        editable=False,
                        max_length=32,
                        protected=True,
                    ),
                ),
                ("agent", models.CharField(blank=True, max_length=150)),
                ("goal", models.TextField(blank=True)),
                ("worker_name", models.TextField(default="", editable=False)),
                ("waiting_for", models.TextField(default="", editable=False)),
                ("retry_at", models.DateTimeField(editable=False, null=True)),
                ("started_at", models.DateTimeField(editable=False, null=True)),
                ("completed_at", models.DateTimeField(editable=False, null=True)),
                ("result", models.JSONField(editable=False, null=True)),
                ("last_error", models.TextField(default="", editable=False)),
                (
                    "retry_of",
                    models.OneToOneField(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="successor",
                        to="statecore.agentjob",
                    ),
                ),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view", "operate", "override"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["cancelled", "completed", "failed"]), _negated=True),
                        fields=["state", "state_entered_at"],
                        name="agent_job_live_by_state",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "state__in",
                                [
                                    "queued",
                                    "running",
                                    "waiting",
                                    "parked",
                                    "retrying",
                                    "completed",
                                    "failed",
                                    "cancelled",
                                ],
                            )
                        ),
                        name="agent_job_state_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["running"]), models.Q(("worker_name", ""), _negated=True)),
                            models.Q(models.Q(("state__in", ["running"]), _negated=True), ("worker_name", "")),
                            _connector="OR",
                        ),
                        name="agent_job_worker_name_exactly_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["parked", "waiting"]), ("waiting_for", ""), _connector="OR"),
                        name="agent_job_waits_for_something_only_when_blocked",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                (
                                    "state__in",
                                    ["cancelled", "completed", "failed", "parked", "queued", "running", "waiting"],
                                ),
                                _negated=True,
                            ),
                            ("retry_at__isnull", True),
                            _connector="OR",
                        ),
                        name="agent_job_retry_at_unset_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["running"]), _negated=True),
                            ("started_at__isnull", False),
                            _connector="OR",
                        ),
                        name="agent_job_started_at_set_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("state__in", ["cancelled", "completed", "failed"]), ("completed_at__isnull", False)
                            ),
                            models.Q(
                                models.Q(("state__in", ["cancelled", "completed", "failed"]), _negated=True),
                                models.Q(("completed_at__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="agent_job_completed_at_exactly_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("started_at__isnull", True),
                            ("started_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="agent_job_created_at_before_started_at",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("completed_at__isnull", True),
                            ("completed_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="agent_job_created_at_before_completed_at",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("started_at__isnull", True),
                            ("completed_at__isnull", True),
                            ("completed_at__gte", models.F("started_at")),
                            _connector="OR",
                        ),
                        name="agent_job_started_at_before_completed_at",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AgentJobEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("sequence", models.PositiveIntegerField()),
                ("type", models.CharField(max_length=64)),
                ("payload", models.JSONField(default=dict)),
                ("to_state", models.CharField(default="", max_length=32)),
                ("journal_event", models.CharField(default="", max_length=30)),
                ("actor", models.CharField(max_length=150)),
                ("at", models.DateTimeField()),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="events", to="statecore.agentjob"
                    ),
                ),
            ],
            options={
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(fields=("job", "sequence"), name="agent_job_event_log_is_linear")
                ],
            },
        ),
        migrations.CreateModel(
            name="Alert",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("rule", models.CharField(max_length=32)),
                ("key", models.CharField(max_length=128)),
                ("severity", models.CharField(max_length=16)),
                ("detail", models.TextField()),
                ("facts", models.JSONField(default=dict)),
                ("opened_at", models.DateTimeField()),
                ("resolved_at", models.DateTimeField(null=True)),
                ("acknowledged_by", models.CharField(blank=True, default="", max_length=150)),
                ("acknowledged_at", models.DateTimeField(null=True)),
                ("note", models.CharField(blank=True, default="", max_length=2000)),
            ],
            options={
                "default_permissions": ("view", "change"),
                "indexes": [models.Index(fields=["-opened_at"], name="alert_newest_first")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("resolved_at", None)), fields=("rule", "key"), name="alert_open_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="AlertNotice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("receiver", models.CharField(max_length=16)),
                ("subject", models.CharField(max_length=200)),
                ("text", models.TextField()),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("next_try_at", models.DateTimeField()),
                ("done_at", models.DateTimeField(null=True)),
                (
                    "alert",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="notices", to="statecore.alert"
                    ),
                ),
            ],
            options={
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(
                        condition=models.Q(("done_at", None)), fields=["next_try_at"], name="alert_notice_waiting"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="AuditNote",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(
                        choices=[("override_refused", "Override Refused"), ("edited", "Edited")], max_length=32
                    ),
                ),
                ("actor", models.CharField(max_length=150)),
                ("actor_kind", models.CharField(max_length=16)),
                ("channel", models.CharField(max_length=16)),
                ("entity_type", models.CharField(max_length=32)),
                ("entity_id", models.CharField(max_length=64)),
                ("detail", models.TextField()),
                ("facts", models.JSONField(default=dict)),
                ("at", models.DateTimeField()),
            ],
            options={
                "default_permissions": ("view",),
                "indexes": [models.Index(fields=["kind", "-id"], name="audit_note_newest_of_kind")],
            },
        ),
        migrations.CreateModel(
            name="CircuitBreaker",
            fields=[
                (
                    "id",
                    statecore.kernel.ids.IdField(
                        max_length=64,
                        primary_key=True,
                        serialize=False,
                        validators=[django.core.validators.RegexValidator("^[A-Za-z0-9._:-]{1,64}\\Z")],
                    ),
                ),
                ("version", models.PositiveIntegerField(default=0, editable=False)),
                ("chain_head", models.CharField(editable=False, max_length=64)),
                ("attempt", models.PositiveIntegerField(default=0, editable=False)),
                ("created_at", models.DateTimeField(db_index=True, editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
                ("state_entered_at", models.DateTimeField(editable=False)),
                (
                    "metadata",
                    models.JSONField(
                        blank=True, default=dict, validators=[statecore.kernel.validation.validate_json_object]
                    ),
                ),
                (
                    "state",
                    statecore.kernel.fields.StateField(
                        choices=[("CLOSED", "CLOSED"), ("OPEN", "OPEN"), ("HALF_OPEN", "HALF_OPEN")],
                        default="CLOSED",
                        editable=False,
                        max_length=32,
                        protected=True,
                    ),
                ),
                (
                    "failure_threshold",
                    models.PositiveSmallIntegerField(
                        default=5, validators=[django.core.validators.MinValueValidator(1)]
                    ),
                ),
                ("cooldown_seconds", models.PositiveIntegerField(default=60)),
                (
                    "success_threshold",
                    models.PositiveSmallIntegerField(
                        default=1, validators=[django.core.validators.MinValueValidator(1)]
                    ),
                ),
                ("failure_count", models.PositiveIntegerField(default=0, editable=False)),
                ("success_count", models.PositiveIntegerField(default=0, editable=False)),
                ("last_failure_at", models.DateTimeField(editable=False, null=True)),
                ("opened_at", models.DateTimeField(editable=False, null=True)),
                ("last_error", models.TextField(default="", editable=False)),
                ("probe_by", models.CharField(default="", editable=False, max_length=150)),
                ("probe_until", models.DateTimeField(editable=False, null=True)),
                (
                    "retry_of",
                    models.OneToOneField(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="successor",
                        to="statecore.circuitbreaker",
                    ),
                ),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view", "operate", "override"),
                "indexes": [models.Index(fields=["state"], name="breaker_by_state")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["CLOSED", "OPEN", "HALF_OPEN"])),
                        name="breaker_state_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["OPEN"]), ("opened_at__isnull", False)),
                            models.Q(
                                models.Q(("state__in", ["OPEN"]), _negated=True),
                                models.Q(("opened_at__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="breaker_opened_at_exactly_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["CLOSED", "OPEN"]), _negated=True),
                            ("probe_until__isnull", True),
                            _connector="OR",
                        ),
                        name="breaker_probe_until_unset_in_state",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                ("event_id", statecore.kernel.ids.IdField(max_length=30, primary_key=True, serialize=False)),
                ("entity_type", models.CharField(max_length=32)),
                ("entity_id", models.CharField(max_length=64)),
                ("sequence", models.PositiveIntegerField()),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("normal", "Normal"),
                            ("propagated", "Propagated"),
                            ("override", "Override"),
                            ("created", "Created"),
                        ],
                        max_length=16,
                    ),
                ),
                ("trigger", models.CharField(max_length=64)),
                ("from_state", models.CharField(max_length=32)),
                ("to_state", models.CharField(max_length=32)),
                ("severity", models.CharField(max_length=16)),
                ("actor", models.CharField(max_length=150)),
                ("channel", models.CharField(max_length=16)),
                ("timestamp", models.DateTimeField()),
                ("caused_by", models.CharField(max_length=30)),
                ("prev_hash", models.CharField(max_length=64)),
                ("body", models.TextField()),
                ("hash", models.CharField(max_length=64)),
            ],
            options={
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("entity_type", "entity_id", "sequence"), name="event_chain_is_linear"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="IdempotencyRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("actor", models.CharField(max_length=150)),
                ("actor_kind", models.CharField(max_length=16)),
                ("key", models.CharField(max_length=200)),
                ("endpoint", models.CharField(max_length=255)),
                ("body_hash", models.CharField(max_length=64)),
                ("response", models.JSONField(null=True)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(db_index=True)),
            ],
            options={
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("actor", "actor_kind", "key"), name="idempotency_key_is_unique_per_actor"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="IngestionJob",
            fields=[
                (
                    "id",
                    statecore.kernel.ids.IdField(
                        max_length=64,
                        primary_key=True,
                        serialize=False,
                        validators=[django.core.validators.RegexValidator("^[A-Za-z0-9._:-]{1,64}\\Z")],
                    ),
                ),
                ("version", models.PositiveIntegerField(default=0, editable=False)),
                ("chain_head", models.CharField(editable=False, max_length=64)),
                ("attempt", models.PositiveIntegerField(default=0, editable=False)),
                ("created_at", models.DateTimeField(db_index=True, editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
                ("state_entered_at", models.DateTimeField(editable=False)),
                (
                    "metadata",
                    models.JSONField(
                        blank=True, default=dict, validators=[statecore.kernel.validation.validate_json_object]
                    ),
                ),
                (
                    "state",
                    statecore.kernel.fields.StateField(
                        choices=[
                            ("pending", "pending"),
                            ("running", "running"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("quarantined", "quarantined"),
                        ],
                        default="pending",
                        editable=False,
                        max_length=32,
                        protected=True,
                    ),
                ),
                ("source", models.CharField(blank=True, max_length=500)),
                (
                    "max_attempts",
                    models.PositiveSmallIntegerField(
                        default=3, validators=[django.core.validators.MinValueValidator(1)]
                    ),
                ),
                ("attempts", models.PositiveIntegerField(default=0, editable=False)),
                ("worker_name", models.TextField(default="", editable=False)),
                ("run_after", models.DateTimeField(editable=False, null=True)),
                ("started_at", models.DateTimeField(editable=False, null=True)),
                ("completed_at", models.DateTimeField(editable=False, null=True)),
                ("last_error", models.TextField(default="", editable=False)),
                (
                    "retry_of",
                    models.OneToOneField(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="successor",
                        to="statecore.ingestionjob",
                    ),
                ),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view", "operate", "override"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["quarantined", "succeeded"]), _negated=True),
                        fields=["state", "state_entered_at"],
                        name="ingestion_job_live_by_state",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["pending", "running", "succeeded", "failed", "quarantined"])),
                        name="ingestion_job_state_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("attempts__gte", 0)), name="ingestion_job_attempts_not_negative"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["running"]), models.Q(("worker_name", ""), _negated=True)),
                            models.Q(models.Q(("state__in", ["running"]), _negated=True), ("worker_name", "")),
                            _connector="OR",
                        ),
                        name="ingestion_job_worker_name_exactly_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["failed", "quarantined", "running", "succeeded"]), _negated=True),
                            ("run_after__isnull", True),
                            _connector="OR",
                        ),
                        name="ingestion_job_run_after_unset_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["running"]), _negated=True),
                            ("started_at__isnull", False),
                            _connector="OR",
                        ),
                        name="ingestion_job_started_at_set_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["quarantined", "succeeded"]), ("completed_at__isnull", False)),
                            models.Q(
                                models.Q(("state__in", ["quarantined", "succeeded"]), _negated=True),
                                models.Q(("completed_at__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="ingestion_job_completed_at_exactly_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("started_at__isnull", True),
                            ("started_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="ingestion_job_created_at_before_started_at",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("completed_at__isnull", True),
                            ("completed_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="ingestion_job_created_at_before_completed_at",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("started_at__isnull", True),
                            ("completed_at__isnull", True),
                            ("completed_at__gte", models.F("started_at")),
                            _connector="OR",
                        ),
                        name="ingestion_job_started_at_before_completed_at",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="OverrideCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entity_type", models.CharField(max_length=32)),
                ("operator", models.CharField(max_length=150)),
                ("count", models.BigIntegerField(default=0)),
            ],
            options={
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(fields=("entity_type", "operator"), name="override_count_is_one_row")
                ],
            },
        ),
        migrations.CreateModel(
            name="PipelineJob",
            fields=[
                (
                    "id",
                    statecore.kernel.ids.IdField(
                        max_length=64,
                        primary_key=True,
                        serialize=False,
                        validators=[django.core.validators.RegexValidator("^[A-Za-z0-9._:-]{1,64}\\Z")],
                    ),
                ),
                ("version", models.PositiveIntegerField(default=0, editable=False)),
                ("chain_head", models.CharField(editable=False, max_length=64)),
                ("attempt", models.PositiveIntegerField(default=0, editable=False)),
                ("created_at", models.DateTimeField(db_index=True, editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
                ("state_entered_at", models.DateTimeField(editable=False)),
                (
                    "metadata",
                    models.JSONField(
                        blank=True, default=dict, validators=[statecore.kernel.validation.validate_json_object]
                    ),
                ),
                (
                    "state",
                    statecore.kernel.fields.StateField(
                        choices=[
                            ("PENDING", "PENDING"),
                            ("ANALYZING", "ANALYZING"),
                            ("MAPPING", "MAPPING"),
                            ("MATERIALIZING", "MATERIALIZING"),
                            ("VALIDATING", "VALIDATING"),
                            ("DONE", "DONE"),
                            ("FAILED", "FAILED"),
                            ("CANCELLED", "CANCELLED"),
                        ],
                        default="PENDING",
                        editable=False,
                        max_length=32,
                        protected=True,
                    ),
                ),
                ("profile", models.CharField(blank=True, max_length=200)),
                ("command", models.TextField(blank=True)),
                ("detail", models.TextField(default="", editable=False)),
                ("last_error", models.TextField(default="", editable=False)),
                ("started_at", models.DateTimeField(editable=False, null=True)),
                ("completed_at", models.DateTimeField(editable=False, null=True)),
                ("resumed_at", models.DateTimeField(editable=False, null=True)),
                (
                    "retry_of",
                    models.OneToOneField(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="successor",
                        to="statecore.pipelinejob",
                    ),
                ),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view", "operate", "override"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["CANCELLED", "DONE", "FAILED"]), _negated=True),
                        fields=["state", "state_entered_at"],
                        name="pipeline_job_live_by_state",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "state__in",
                                [
                                    "PENDING",
                                    "ANALYZING",
                                    "MAPPING",
                                    "MATERIALIZING",
                                    "VALIDATING",
                                    "DONE",
                                    "FAILED",
                                    "CANCELLED",
                                ],
                            )
                        ),
                        name="pipeline_job_state_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["FAILED"]), _negated=True),
                            models.Q(("last_error", ""), _negated=True),
                            _connector="OR",
                        ),
                        name="pipeline_job_last_error_filled_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("state__in", ["ANALYZING", "MAPPING", "MATERIALIZING", "VALIDATING"]), _negated=True
                            ),
                            ("started_at__isnull", False),
                            _connector="OR",
                        ),
                        name="pipeline_job_started_at_set_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["PENDING"]), _negated=True),
                            ("started_at__isnull", True),
                            _connector="OR",
                        ),
                        name="pipeline_job_started_at_unset_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["CANCELLED", "DONE", "FAILED"]), ("completed_at__isnull", False)),
                            models.Q(
                                models.Q(("state__in", ["CANCELLED", "DONE", "FAILED"]), _negated=True),
                                models.Q(("completed_at__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="pipeline_job_completed_at_exactly_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("started_at__isnull", True),
                            ("started_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="pipeline_job_created_at_before_started_at",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("completed_at__isnull", True),
                            ("completed_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="pipeline_job_created_at_before_completed_at",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("started_at__isnull", True),
                            ("completed_at__isnull", True),
                            ("completed_at__gte", models.F("started_at")),
                            _connector="OR",
                        ),
                        name="pipeline_job_started_at_before_completed_at",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Checkpoint",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("phase", models.CharField(max_length=64)),
                ("payload", models.JSONField()),
                ("updated_at", models.DateTimeField()),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="checkpoints",
                        to="statecore.pipelinejob",
                    ),
                ),
            ],
            options={
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(fields=("job", "phase"), name="checkpoint_one_per_job_and_phase")
                ],
            },
        ),
        migrations.CreateModel(
            name="Position",
            fields=[
                ("position", models.BigIntegerField(primary_key=True, serialize=False)),
                ("entity_type", models.CharField(max_length=32)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("normal", "Normal"),
                            ("propagated", "Propagated"),
                            ("override", "Override"),
                            ("created", "Created"),
                        ],
                        max_length=16,
                    ),
                ),
                ("run_id", models.CharField(max_length=64)),
                ("severity", models.CharField(max_length=16)),
                ("actor", models.CharField(max_length=150)),
                (
                    "event",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="statecore.event",
                    ),
                ),
            ],
            options={
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(fields=["entity_type", "position"], name="position_by_machine"),
                    models.Index(
                        condition=models.Q(("run_id", ""), _negated=True),
                        fields=["run_id", "position"],
                        name="position_by_run",
                    ),
                    models.Index(
                        condition=models.Q(("kind", "override")), fields=["position"], name="position_of_overrides"
                    ),
                    models.Index(fields=["actor", "position"], name="position_by_actor"),
                    models.Index(
                        condition=models.Q(("severity", "warning")), fields=["position"], name="position_of_warnings"
                    ),
                    models.Index(
                        condition=models.Q(("severity", "error")), fields=["position"], name="position_of_errors"
                    ),
                    models.Index(
                        condition=models.Q(("severity", "critical")), fields=["position"], name="position_of_criticals"
                    ),
                ],
                "constraints": [models.UniqueConstraint(fields=("event",), name="position_one_per_event")],
            },
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                (
                    "id",
                    statecore.kernel.ids.IdField(
                        max_length=64,
                        primary_key=True,
                        serialize=False,
                        validators=[django.core.validators.RegexValidator("^[A-Za-z0-9._:-]{1,64}\\Z")],
                    ),
                ),
                ("version", models.PositiveIntegerField(default=0, editable=False)),
                ("chain_head", models.CharField(editable=False, max_length=64)),
                ("attempt", models.PositiveIntegerField(default=0, editable=False)),
                ("created_at", models.DateTimeField(db_index=True, editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
                ("state_entered_at", models.DateTimeField(editable=False)),
                (
                    "metadata",
                    models.JSONField(
                        blank=True, default=dict, validators=[statecore.kernel.validation.validate_json_object]
                    ),
                ),
                (
                    "state",
                    statecore.kernel.fields.StateField(
                        choices=[
                            ("pending", "pending"),
                            ("running", "running"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("canceled", "canceled"),
                        ],
                        default="pending",
                        editable=False,
                        max_length=32,
                        protected=True,
                    ),
                ),
                ("started_at", models.DateTimeField(editable=False, null=True)),
                ("completed_at", models.DateTimeField(editable=False, null=True)),
                (
                    "phase",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="runs", to="statecore.phase"
                    ),
                ),
                (
                    "retry_of",
                    models.OneToOneField(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="successor",
                        to="statecore.run",
                    ),
                ),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view", "operate", "override"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["canceled", "failed", "succeeded"]), _negated=True),
                        fields=["state", "state_entered_at"],
                        name="run_live_by_state",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["pending", "running", "succeeded", "failed", "canceled"])),
                        name="run_state_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("state__in", ["canceled", "failed", "succeeded"]), ("completed_at__isnull", False)
                            ),
                            models.Q(
                                models.Q(("state__in", ["canceled", "failed", "succeeded"]), _negated=True),
                                models.Q(("completed_at__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="run_completed_at_exactly_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["failed", "running", "succeeded"]), _negated=True),
                            ("started_at__isnull", False),
                            _connector="OR",
                        ),
                        name="run_started_at_set_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["pending"]), _negated=True),
                            ("started_at__isnull", True),
                            _connector="OR",
                        ),
                        name="run_started_at_unset_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("started_at__isnull", True),
                            ("started_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="run_created_at_before_started_at",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("completed_at__isnull", True),
                            ("completed_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="run_created_at_before_completed_at",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("started_at__isnull", True),
                            ("completed_at__isnull", True),
                            ("completed_at__gte", models.F("started_at")),
                            _connector="OR",
                        ),
                        name="run_started_at_before_completed_at",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="StateCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entity_type", models.CharField(max_length=32)),
                ("state", models.CharField(max_length=32)),
                ("count", models.BigIntegerField(default=0)),
            ],
            options={
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(fields=("entity_type", "state"), name="state_count_is_one_row")
                ],
            },
        ),
        migrations.CreateModel(
            name="SupervisedJob",
            fields=[
                (
                    "id",
                    statecore.kernel.ids.IdField(
                        max_length=64,
                        primary_key=True,
                        serialize=False,
                        validators=[django.core.validators.RegexValidator("^[A-Za-z0-9._:-]{1,64}\\Z")],
                    ),
                ),
                ("version", models.PositiveIntegerField(default=0, editable=False)),
                ("chain_head", models.CharField(editable=False, max_length=64)),
                ("attempt", models.PositiveIntegerField(default=0, editable=False)),
                ("created_at", models.DateTimeField(db_index=True, editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
                ("state_entered_at", models.DateTimeField(editable=False)),
                (
                    "metadata",
                    models.JSONField(
                        blank=True, default=dict, validators=[statecore.kernel.validation.validate_json_object]
                    ),
                ),
                (
                    "state",
                    statecore.kernel.fields.StateField(
                        choices=[
                            ("SUBMITTED", "SUBMITTED"),
                            ("PENDING", "PENDING"),
                            ("RUNNING", "RUNNING"),
                            ("COMPLETED", "COMPLETED"),
                            ("FAILED", "FAILED"),
                            ("CANCELED", "CANCELED"),
                        ],
                        default="SUBMITTED",
                        editable=False,
                        max_length=32,
                        protected=True,
                    ),
                ),
                ("task_description", models.TextField(blank=True)),
                (
                    "depth",
                    models.SmallIntegerField(
                        default=0,
                        validators=[
                            django.core.validators.MinValueValidator(0),
                            django.core.validators.MaxValueValidator(5),
                        ],
                    ),
                ),
                (
                    "worker_count",
                    models.PositiveSmallIntegerField(
                        default=1,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(10),
                        ],
                    ),
                ),
                ("allocated_workers", models.JSONField(default=list, editable=False)),
                ("started_at", models.DateTimeField(editable=False, null=True)),
                ("completed_at", models.DateTimeField(editable=False, null=True)),
                ("result", models.JSONField(editable=False, null=True)),
                ("last_error", models.TextField(default="", editable=False)),
                (
                    "parent_job",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="child_jobs",
                        to="statecore.supervisedjob",
                    ),
                ),
                (
                    "retry_of",
                    models.OneToOneField(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="successor",
                        to="statecore.supervisedjob",
                    ),
                ),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view", "operate", "override"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["CANCELED", "COMPLETED", "FAILED"]), _negated=True),
                        fields=["state", "state_entered_at"],
                        name="supervised_job_live_by_state",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("state__in", ["SUBMITTED", "PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELED"])
                        ),
                        name="supervised_job_state_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("depth__gte", 0), ("depth__lte", 5)), name="supervised_job_depth_in_range"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("worker_count__gte", 1), ("worker_count__lte", 10)),
                        name="supervised_job_worker_count_in_range",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["COMPLETED", "PENDING", "RUNNING"]), _negated=True),
                            models.Q(("task_description", ""), _negated=True),
                            _connector="OR",
                        ),
                        name="supervised_job_task_description_filled_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["RUNNING"]), _negated=True),
                            ("started_at__isnull", False),
                            _connector="OR",
                        ),
                        name="supervised_job_started_at_set_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["PENDING", "SUBMITTED"]), _negated=True),
                            ("started_at__isnull", True),
                            _connector="OR",
                        ),
                        name="supervised_job_started_at_unset_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("state__in", ["CANCELED", "COMPLETED", "FAILED"]), ("completed_at__isnull", False)
                            ),
                            models.Q(
                                models.Q(("state__in", ["CANCELED", "COMPLETED", "FAILED"]), _negated=True),
                                models.Q(("completed_at__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="supervised_job_completed_at_exactly_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("started_at__isnull", True),
                            ("started_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="supervised_job_created_at_before_started_at",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("completed_at__isnull", True),
                            ("completed_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="supervised_job_created_at_before_completed_at",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("started_at__isnull", True),
                            ("completed_at__isnull", True),
                            ("completed_at__gte", models.F("started_at")),
                            _connector="OR",
                        ),
                        name="supervised_job_started_at_before_completed_at",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="SupervisedWorker",
            fields=[
                (
                    "id",
                    statecore.kernel.ids.IdField(
                        max_length=64,
                        primary_key=True,
                        serialize=False,
                        validators=[django.core.validators.RegexValidator("^[A-Za-z0-9._:-]{1,64}\\Z")],
                    ),
                ),
                ("version", models.PositiveIntegerField(default=0, editable=False)),
                ("chain_head", models.CharField(editable=False, max_length=64)),
                ("attempt", models.PositiveIntegerField(default=0, editable=False)),
                ("created_at", models.DateTimeField(db_index=True, editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
                ("state_entered_at", models.DateTimeField(editable=False)),
                (
                    "metadata",
                    models.JSONField(
                        blank=True, default=dict, validators=[statecore.kernel.validation.validate_json_object]
                    ),
                ),
                (
                    "state",
                    statecore.kernel.fields.StateField(
                        choices=[
                            ("IDLE", "IDLE"),
                            ("RUNNING", "RUNNING"),
                            ("PAUSED", "PAUSED"),
                            ("COMPLETED", "COMPLETED"),
                            ("FAILED", "FAILED"),
                            ("TERMINATED", "TERMINATED"),
                        ],
                        default="IDLE",
                        editable=False,
                        max_length=32,
                        protected=True,
                    ),
                ),
                ("workspace_id", models.CharField(max_length=64)),
                (
                    "capacity",
                    models.PositiveSmallIntegerField(
                        default=1, validators=[django.core.validators.MinValueValidator(1)]
                    ),
                ),
                ("pending_tasks", models.PositiveIntegerField(default=0)),
                ("active_tasks", models.PositiveSmallIntegerField(default=0)),
                ("started_at", models.DateTimeField(editable=False, null=True)),
                ("completed_at", models.DateTimeField(editable=False, null=True)),
                ("last_error", models.TextField(default="", editable=False)),
                (
                    "retry_of",
                    models.OneToOneField(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="successor",
                        to="statecore.supervisedworker",
                    ),
                ),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view", "operate", "override"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["COMPLETED", "FAILED", "TERMINATED"]), _negated=True),
                        fields=["state", "state_entered_at"],
                        name="super_worker_live_by_state",
                    ),
                    models.Index(fields=["workspace_id"], name="sworker_by_workspace"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("state__in", ["IDLE", "RUNNING", "PAUSED", "COMPLETED", "FAILED", "TERMINATED"])
                        ),
                        name="supervised_worker_state_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("active_tasks__lte", models.F("capacity"))),
                        name="supervised_worker_active_tasks_at_most_capacity",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["PAUSED", "RUNNING"]), _negated=True),
                            ("started_at__isnull", False),
                            _connector="OR",
                        ),
                        name="supervised_worker_started_at_set_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["IDLE"]), _negated=True),
                            ("started_at__isnull", True),
                            _connector="OR",
                        ),
                        name="supervised_worker_started_at_unset_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("state__in", ["COMPLETED", "FAILED", "TERMINATED"]), ("completed_at__isnull", False)
                            ),
                            models.Q(
                                models.Q(("state__in", ["COMPLETED", "FAILED", "TERMINATED"]), _negated=True),
                                models.Q(("completed_at__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="supervised_worker_completed_at_exactly_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("started_at__isnull", True),
                            ("started_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="supervised_worker_created_at_before_started_at",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("completed_at__isnull", True),
                            ("completed_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="supervised_worker_created_at_before_completed_at",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("started_at__isnull", True),
                            ("completed_at__isnull", True),
                            ("completed_at__gte", models.F("started_at")),
                            _connector="OR",
                        ),
                        name="supervised_worker_started_at_before_completed_at",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Token",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=150, unique=True)),
                (
                    "scope",
                    models.CharField(
                        choices=[
                            ("read", "Read"),
                            ("agent", "Agent"),
                            ("operate", "Operate"),
                            ("override", "Override"),
                        ],
                        max_length=16,
                    ),
                ),
                ("prefix", models.CharField(max_length=16, unique=True)),
                ("hash", models.CharField(max_length=64, unique=True)),
                ("created_at", models.DateTimeField(default=statecore.kernel.clock.now)),
                ("expires_at", models.DateTimeField(null=True)),
                ("revoked_at", models.DateTimeField(null=True)),
                ("last_used_at", models.DateTimeField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tokens", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "default_permissions": ("view", "add", "change"),
            },
        ),
        migrations.CreateModel(
            name="BulkJob",
            fields=[
                ("id", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("entity_type", models.CharField(max_length=32)),
                ("trigger", models.CharField(max_length=64)),
                ("params", models.JSONField(default=dict)),
                ("reason", models.TextField(blank=True)),
                ("actor", models.CharField(max_length=150)),
                ("actor_kind", models.CharField(max_length=16)),
                ("channel", models.CharField(max_length=16)),
                ("total", models.PositiveIntegerField()),
                ("done", models.PositiveIntegerField(default=0)),
                ("refused", models.PositiveIntegerField(default=0)),
                ("created_at", models.DateTimeField()),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "token",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="statecore.token"
                    ),
                ),
            ],
            options={
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(
                        condition=models.Q(("finished_at", None)), fields=["created_at"], name="bulk_job_unfinished"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="BulkPortion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("ids", models.JSONField()),
                ("results", models.JSONField(null=True)),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="portions", to="statecore.bulkjob"
                    ),
                ),
            ],
            options={
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(fields=("job", "number"), name="bulk_portion_numbers_are_unique")
                ],
            },
        ),
        migrations.CreateModel(
            name="TransitionCount",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entity_type", models.CharField(max_length=32)),
                ("from_state", models.CharField(max_length=32)),
                ("to_state", models.CharField(max_length=32)),
                ("count", models.BigIntegerField(default=0)),
            ],
            options={
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("entity_type", "from_state", "to_state"), name="transition_count_is_one_row"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="TransitionRate",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("minute", models.DateTimeField()),
                ("entity_type", models.CharField(max_length=32)),
                ("from_state", models.CharField(max_length=32)),
                ("to_state", models.CharField(max_length=32)),
                ("count", models.BigIntegerField(default=0)),
                ("failures", models.BigIntegerField(default=0)),
                ("overrides", models.BigIntegerField(default=0)),
            ],
            options={
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("minute", "entity_type", "from_state", "to_state"), name="transition_rate_is_one_row"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="UetWorker",
            fields=[
                (
                    "id",
                    statecore.kernel.ids.IdField(
                        max_length=64,
                        primary_key=True,
                        serialize=False,
                        validators=[django.core.validators.RegexValidator("^[A-Za-z0-9._:-]{1,64}\\Z")],
                    ),
                ),
                ("version", models.PositiveIntegerField(default=0, editable=False)),
                ("chain_head", models.CharField(editable=False, max_length=64)),
                ("attempt", models.PositiveIntegerField(default=0, editable=False)),
                ("created_at", models.DateTimeField(db_index=True, editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
                ("state_entered_at", models.DateTimeField(editable=False)),
                (
                    "metadata",
                    models.JSONField(
                        blank=True, default=dict, validators=[statecore.kernel.validation.validate_json_object]
                    ),
                ),
                (
                    "state",
                    statecore.kernel.fields.StateField(
                        choices=[
                            ("SPAWNING", "SPAWNING"),
                            ("IDLE", "IDLE"),
                            ("BUSY", "BUSY"),
                            ("DRAINING", "DRAINING"),
                            ("TERMINATED", "TERMINATED"),
                        ],
                        default="SPAWNING",
                        editable=False,
                        max_length=32,
                        protected=True,
                    ),
                ),
                ("worker_type", models.CharField(max_length=64)),
                (
                    "affinity",
                    models.JSONField(blank=True, null=True, validators=[statecore.kernel.validation.validate_affinity]),
                ),
                ("last_heartbeat", models.DateTimeField(editable=False)),
                ("terminated_at", models.DateTimeField(editable=False, null=True)),
                ("last_error", models.TextField(default="", editable=False)),
                (
                    "retry_of",
                    models.OneToOneField(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="successor",
                        to="statecore.uetworker",
                    ),
                ),
            ],
            options={
                "verbose_name": "UET worker",
                "abstract": False,
                "default_permissions": ("view", "operate", "override"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["TERMINATED"]), _negated=True),
                        fields=["state", "state_entered_at"],
                        name="uet_worker_live_by_state",
                    ),
                    models.Index(
                        condition=models.Q(("state__in", ["TERMINATED"]), _negated=True),
                        fields=["last_heartbeat"],
                        name="uet_worker_live_by_heartbeat",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["SPAWNING", "IDLE", "BUSY", "DRAINING", "TERMINATED"])),
                        name="uet_worker_state_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["TERMINATED"]), ("terminated_at__isnull", False)),
                            models.Q(
                                models.Q(("state__in", ["TERMINATED"]), _negated=True),
                                models.Q(("terminated_at__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="uet_worker_terminated_at_exactly_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("last_heartbeat__isnull", True),
                            ("last_heartbeat__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="uet_worker_created_at_before_last_heartbeat",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("terminated_at__isnull", True),
                            ("terminated_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="uet_worker_created_at_before_terminated_at",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Worker",
            fields=[
                (
                    "id",
                    statecore.kernel.ids.IdField(
                        max_length=64,
                        primary_key=True,
                        serialize=False,
                        validators=[django.core.validators.RegexValidator("^[A-Za-z0-9._:-]{1,64}\\Z")],
                    ),
                ),
                ("version", models.PositiveIntegerField(default=0, editable=False)),
                ("chain_head", models.CharField(editable=False, max_length=64)),
                ("attempt", models.PositiveIntegerField(default=0, editable=False)),
                ("created_at", models.DateTimeField(db_index=True, editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
                ("state_entered_at", models.DateTimeField(editable=False)),
                (
                    "metadata",
                    models.JSONField(
                        blank=True, default=dict, validators=[statecore.kernel.validation.validate_json_object]
                    ),
                ),
                (
                    "state",
                    statecore.kernel.fields.StateField(
                        choices=[
                            ("initializing", "initializing"),
                            ("idle", "idle"),
                            ("busy", "busy"),
                            ("unresponsive", "unresponsive"),
                            ("shutdown", "shutdown"),
                        ],
                        default="initializing",
                        editable=False,
                        max_length=32,
                        protected=True,
                    ),
                ),
                (
                    "worker_type",
                    models.CharField(
                        choices=[("orchestration", "Orchestration"), ("uet", "Uet")],
                        default="orchestration",
                        max_length=16,
                    ),
                ),
                (
                    "capabilities",
                    models.JSONField(
                        blank=True, default=list, validators=[statecore.kernel.validation.validate_word_list]
                    ),
                ),
                (
                    "affinity",
                    models.JSONField(blank=True, null=True, validators=[statecore.kernel.validation.validate_affinity]),
                ),
                (
                    "max_concurrent_tasks",
                    models.PositiveSmallIntegerField(
                        default=1, validators=[django.core.validators.MinValueValidator(1)]
                    ),
                ),
                ("current_load", models.PositiveSmallIntegerField(default=0, editable=False)),
                ("draining", models.BooleanField(default=False, editable=False)),
                ("commands", models.JSONField(default=list, editable=False)),
                ("commands_told", models.PositiveIntegerField(default=0, editable=False)),
                ("last_heartbeat", models.DateTimeField(editable=False)),
                ("registered_by", models.CharField(default="", editable=False, max_length=150)),
                ("shutdown_at", models.DateTimeField(editable=False, null=True)),
                (
                    "retry_of",
                    models.OneToOneField(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="successor",
                        to="statecore.worker",
                    ),
                ),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view", "operate", "override"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["shutdown"]), _negated=True),
                        fields=["state", "state_entered_at"],
                        name="worker_live_by_state",
                    ),
                    models.Index(
                        condition=models.Q(("state__in", ["shutdown"]), _negated=True),
                        fields=["last_heartbeat"],
                        name="worker_live_by_heartbeat",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["initializing", "idle", "busy", "unresponsive", "shutdown"])),
                        name="worker_state_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("worker_type__in", ["orchestration", "uet"])),
                        name="worker_worker_type_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["shutdown"]), ("shutdown_at__isnull", False)),
                            models.Q(
                                models.Q(("state__in", ["shutdown"]), _negated=True),
                                models.Q(("shutdown_at__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="worker_shutdown_at_exactly_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("current_load__lte", models.F("max_concurrent_tasks"))),
                        name="worker_current_load_at_most_max_concurrent_tasks",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("last_heartbeat__isnull", True),
                            ("last_heartbeat__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="worker_created_at_before_last_heartbeat",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("shutdown_at__isnull", True),
                            ("shutdown_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="worker_created_at_before_shutdown_at",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Workstream",
            fields=[
                (
                    "id",
                    statecore.kernel.ids.IdField(
                        max_length=64,
                        primary_key=True,
                        serialize=False,
                        validators=[django.core.validators.RegexValidator("^[A-Za-z0-9._:-]{1,64}\\Z")],
                    ),
                ),
                ("version", models.PositiveIntegerField(default=0, editable=False)),
                ("chain_head", models.CharField(editable=False, max_length=64)),
                ("attempt", models.PositiveIntegerField(default=0, editable=False)),
                ("created_at", models.DateTimeField(db_index=True, editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
                ("state_entered_at", models.DateTimeField(editable=False)),
                (
                    "metadata",
                    models.JSONField(
                        blank=True, default=dict, validators=[statecore.kernel.validation.validate_json_object]
                    ),
                ),
                (
                    "state",
                    statecore.kernel.fields.StateField(
                        choices=[
                            ("planned", "planned"),
                            ("ready", "ready"),
                            ("blocked", "blocked"),
                            ("executing", "executing"),
                            ("validating", "validating"),
                            ("completed", "completed"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                            ("skipped", "skipped"),
                        ],
                        default="planned",
                        editable=False,
                        max_length=32,
                        protected=True,
                    ),
                ),
                ("is_critical", models.BooleanField(default=False)),
                ("expected_tasks", models.PositiveIntegerField(blank=True, null=True)),
                ("completed_at", models.DateTimeField(editable=False, null=True)),
                ("last_error", models.TextField(default="", editable=False)),
                (
                    "depends_on",
                    models.ManyToManyField(blank=True, related_name="dependents", to="statecore.workstream"),
                ),
                (
                    "phase",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="statecore.phase",
                    ),
                ),
                (
                    "retry_of",
                    models.OneToOneField(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="successor",
                        to="statecore.workstream",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="workstreams", to="statecore.run"
                    ),
                ),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view", "operate", "override"),
                "indexes": [
                    models.Index(
                        condition=models.Q(
                            ("state__in", ["cancelled", "completed", "failed", "skipped"]), _negated=True
                        ),
                        fields=["state", "state_entered_at"],
                        name="workstream_live_by_state",
                    ),
                    models.Index(
                        condition=models.Q(("state", "failed")), fields=["run"], name="workstream_failed_by_run"
                    ),
                    models.Index(fields=["updated_at"], name="workstream_by_update"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "state__in",
                                [
                                    "planned",
                                    "ready",
                                    "blocked",
                                    "executing",
                                    "validating",
                                    "completed",
                                    "failed",
                                    "cancelled",
                                    "skipped",
                                ],
                            )
                        ),
                        name="workstream_state_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("state__in", ["cancelled", "completed", "failed", "skipped"]),
                                ("completed_at__isnull", False),
                            ),
                            models.Q(
                                models.Q(("state__in", ["cancelled", "completed", "failed", "skipped"]), _negated=True),
                                models.Q(("completed_at__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="workstream_completed_at_exactly_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("updated_at__isnull", True),
                            ("updated_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="workstream_created_at_before_updated_at",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("updated_at__isnull", True),
                            ("completed_at__isnull", True),
                            ("completed_at__gte", models.F("updated_at")),
                            _connector="OR",
                        ),
                        name="workstream_updated_at_before_completed_at",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="PatchLedger",
            fields=[
                (
                    "id",
                    statecore.kernel.ids.IdField(
                        max_length=64,
                        primary_key=True,
                        serialize=False,
                        validators=[django.core.validators.RegexValidator("^[A-Za-z0-9._:-]{1,64}\\Z")],
                    ),
                ),
                ("version", models.PositiveIntegerField(default=0, editable=False)),
                ("chain_head", models.CharField(editable=False, max_length=64)),
                ("attempt", models.PositiveIntegerField(default=0, editable=False)),
                ("created_at", models.DateTimeField(db_index=True, editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
                ("state_entered_at", models.DateTimeField(editable=False)),
                (
                    "metadata",
                    models.JSONField(
                        blank=True, default=dict, validators=[statecore.kernel.validation.validate_json_object]
                    ),
                ),
                (
                    "state",
                    statecore.kernel.fields.StateField(
                        choices=[
                            ("created", "created"),
                            ("validated", "validated"),
                            ("queued", "queued"),
                            ("applied", "applied"),
                            ("apply_failed", "apply_failed"),
                            ("verified", "verified"),
                            ("committed", "committed"),
                            ("rolled_back", "rolled_back"),
                            ("quarantined", "quarantined"),
                            ("dropped", "dropped"),
                        ],
                        default="created",
                        editable=False,
                        max_length=32,
                        protected=True,
                    ),
                ),
                ("validation_format_passed", models.BooleanField(default=False, editable=False)),
                ("validation_scope_passed", models.BooleanField(default=False, editable=False)),
                ("validation_constraints_passed", models.BooleanField(default=False, editable=False)),
                ("validation_tests_passed", models.BooleanField(default=False, editable=False)),
                ("apply_retries", models.PositiveSmallIntegerField(default=0, editable=False)),
                ("last_error", models.TextField(default="", editable=False)),
                ("commit_sha", models.CharField(default="", editable=False, max_length=64)),
                ("quarantine_reason", models.TextField(default="", editable=False)),
                ("quarantine_metadata", models.JSONField(default=dict, editable=False)),
                ("quarantined_at", models.DateTimeField(editable=False, null=True)),
                ("compensation_plan", models.JSONField(default=dict, editable=False)),
                ("compensation_approved_by", models.CharField(default="", editable=False, max_length=150)),
                ("rollback_reason", models.TextField(default="", editable=False)),
                ("rolled_back_at", models.DateTimeField(editable=False, null=True)),
                ("abandoned", models.BooleanField(default=False, editable=False)),
                (
                    "patch",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="entries", to="statecore.patch"
                    ),
                ),
                (
                    "retry_of",
                    models.OneToOneField(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="successor",
                        to="statecore.patchledger",
                    ),
                ),
                (
                    "phase",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="statecore.phase",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="statecore.run",
                    ),
                ),
                (
                    "workstream",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="patches", to="statecore.workstream"
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "patch ledger",
                "abstract": False,
                "default_permissions": ("view", "operate", "override"),
                "indexes": [
                    models.Index(
                        condition=models.Q(
                            ("state__in", ["committed", "dropped", "quarantined", "rolled_back"]), _negated=True
                        ),
                        fields=["state", "state_entered_at"],
                        name="patch_live_by_state",
                    ),
                    models.Index(
                        condition=models.Q(
                            models.Q(
                                ("state__in", ["committed", "dropped", "quarantined", "rolled_back"]), _negated=True
                            ),
                            ("abandoned", False),
                        ),
                        fields=["state", "state_entered_at"],
                        name="patch_awaited_by_state",
                    ),
                    models.Index(fields=["updated_at"], name="patch_by_update"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "state__in",
                                [
                                    "created",
                                    "validated",
                                    "queued",
                                    "applied",
                                    "apply_failed",
                                    "verified",
                                    "committed",
                                    "rolled_back",
                                    "quarantined",
                                    "dropped",
                                ],
                            )
                        ),
                        name="patch_state_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["quarantined"]), _negated=True),
                            models.Q(("quarantine_reason", ""), _negated=True),
                            _connector="OR",
                        ),
                        name="patch_quarantine_reason_filled_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["quarantined"]), _negated=True),
                            ("quarantined_at__isnull", False),
                            _connector="OR",
                        ),
                        name="patch_quarantined_at_set_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["rolled_back"]), _negated=True),
                            models.Q(("rollback_reason", ""), _negated=True),
                            _connector="OR",
                        ),
                        name="patch_rollback_reason_filled_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["rolled_back"]), ("rolled_back_at__isnull", False)),
                            models.Q(
                                models.Q(("state__in", ["rolled_back"]), _negated=True),
                                models.Q(("rolled_back_at__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="patch_rolled_back_at_exactly_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("updated_at__isnull", True),
                            ("updated_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="patch_created_at_before_updated_at",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("quarantined_at__isnull", True),
                            ("quarantined_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="patch_created_at_before_quarantined_at",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("rolled_back_at__isnull", True),
                            ("rolled_back_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="patch_created_at_before_rolled_back_at",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("apply_retries__lte", 3)), name="patch_apply_retries_at_most_three"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="CompensationStep",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("execution", models.CharField(default="", max_length=32)),
                (
                    "action",
                    models.CharField(
                        choices=[
                            ("plan_written", "Plan Written"),
                            ("plan_approved", "Plan Approved"),
                            ("requested", "Requested"),
                            ("started", "Started"),
                            ("git_revert", "Git Revert"),
                            ("run_tests", "Run Tests"),
                            ("notify", "Notify"),
                            ("required_gate", "Required Gate"),
                            ("commit", "Commit"),
                            ("verify_clean_state", "Verify Clean State"),
                            ("undone", "Undone"),
                            ("rolled_back", "Rolled Back"),
                            ("failed", "Failed"),
                        ],
                        max_length=32,
                    ),
                ),
                ("ok", models.BooleanField()),
                ("output", models.TextField(default="")),
                ("error", models.TextField(default="")),
                ("details", models.JSONField(default=dict)),
                ("actor", models.CharField(max_length=150)),
                ("started_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField()),
                (
                    "entry",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="compensation_steps",
                        to="statecore.patchledger",
                    ),
                ),
            ],
            options={
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(
                        condition=models.Q(("action", "requested")),
                        fields=["entry"],
                        name="compensation_step_requested",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="TestGate",
            fields=[
                (
                    "id",
                    statecore.kernel.ids.IdField(
                        max_length=64,
                        primary_key=True,
                        serialize=False,
                        validators=[django.core.validators.RegexValidator("^[A-Za-z0-9._:-]{1,64}\\Z")],
                    ),
                ),
                ("version", models.PositiveIntegerField(default=0, editable=False)),
                ("chain_head", models.CharField(editable=False, max_length=64)),
                ("attempt", models.PositiveIntegerField(default=0, editable=False)),
                ("created_at", models.DateTimeField(db_index=True, editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
                ("state_entered_at", models.DateTimeField(editable=False)),
                (
                    "metadata",
                    models.JSONField(
                        blank=True, default=dict, validators=[statecore.kernel.validation.validate_json_object]
                    ),
                ),
                (
                    "state",
                    statecore.kernel.fields.StateField(
                        choices=[
                            ("PENDING", "PENDING"),
                            ("RUNNING", "RUNNING"),
                            ("PASSED", "PASSED"),
                            ("FAILED", "FAILED"),
                            ("BLOCKED", "BLOCKED"),
                        ],
                        default="PENDING",
                        editable=False,
                        max_length=32,
                        protected=True,
                    ),
                ),
                (
                    "gate_type",
                    models.CharField(
                        choices=[
                            ("LINT", "Lint"),
                            ("UNIT", "Unit"),
                            ("INTEGRATION", "Integration"),
                            ("SECURITY", "Security"),
                        ],
                        max_length=16,
                    ),
                ),
                ("command", models.TextField()),
                ("expected_exit_code", models.SmallIntegerField(default=0)),
                (
                    "timeout_sec",
                    models.PositiveIntegerField(default=1800, validators=[django.core.validators.MinValueValidator(1)]),
                ),
                ("exit_code", models.IntegerField(editable=False, null=True)),
                ("stdout", models.TextField(editable=False, null=True)),
                ("stderr", models.TextField(editable=False, null=True)),
                ("duration_sec", models.FloatField(editable=False, null=True)),
                ("started_at", models.DateTimeField(editable=False, null=True)),
                ("times_out_at", models.DateTimeField(editable=False, null=True)),
                ("completed_at", models.DateTimeField(editable=False, null=True)),
                ("runner_until", models.DateTimeField(editable=False, null=True)),
                ("abandoned", models.BooleanField(default=False, editable=False)),
                ("depends_on", models.ManyToManyField(blank=True, related_name="dependents", to="statecore.testgate")),
                (
                    "phase",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="gates", to="statecore.phase"
                    ),
                ),
                (
                    "retry_of",
                    models.OneToOneField(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="successor",
                        to="statecore.testgate",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="statecore.run",
                    ),
                ),
                (
                    "workstream",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="gates",
                        to="statecore.workstream",
                    ),
                ),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view", "operate", "override"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["FAILED", "PASSED"]), _negated=True),
                        fields=["state", "state_entered_at"],
                        name="gate_live_by_state",
                    ),
                    models.Index(
                        condition=models.Q(
                            models.Q(("state__in", ["FAILED", "PASSED"]), _negated=True), ("abandoned", False)
                        ),
                        fields=["state", "state_entered_at"],
                        name="gate_awaited_by_state",
                    ),
                    models.Index(fields=["gate_type"], name="gate_by_type"),
                    models.Index(
                        condition=models.Q(("state", "PENDING")),
                        fields=["workstream"],
                        name="gate_pending_by_workstream",
                    ),
                    models.Index(
                        condition=models.Q(("abandoned", False), ("retry_of__isnull", False), ("state", "PENDING")),
                        fields=["state_entered_at"],
                        name="gate_pending_rerun",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["PENDING", "RUNNING", "PASSED", "FAILED", "BLOCKED"])),
                        name="gate_state_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("gate_type__in", ["LINT", "UNIT", "INTEGRATION", "SECURITY"])),
                        name="gate_gate_type_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["FAILED", "PASSED"]), ("exit_code__isnull", False)),
                            models.Q(
                                models.Q(("state__in", ["FAILED", "PASSED"]), _negated=True),
                                models.Q(("exit_code__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="gate_exit_code_exactly_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["FAILED", "PASSED"]), ("stdout__isnull", False)),
                            models.Q(
                                models.Q(("state__in", ["FAILED", "PASSED"]), _negated=True),
                                models.Q(("stdout__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="gate_stdout_exactly_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["FAILED", "PASSED"]), ("stderr__isnull", False)),
                            models.Q(
                                models.Q(("state__in", ["FAILED", "PASSED"]), _negated=True),
                                models.Q(("stderr__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="gate_stderr_exactly_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["FAILED", "PASSED"]), ("completed_at__isnull", False)),
                            models.Q(
                                models.Q(("state__in", ["FAILED", "PASSED"]), _negated=True),
                                models.Q(("completed_at__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="gate_completed_at_exactly_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("started_at__isnull", True),
                            ("started_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="gate_created_at_before_started_at",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("completed_at__isnull", True),
                            ("completed_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="gate_created_at_before_completed_at",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("started_at__isnull", True),
                            ("completed_at__isnull", True),
                            ("completed_at__gte", models.F("started_at")),
                            _connector="OR",
                        ),
                        name="gate_started_at_before_completed_at",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Task",
            fields=[
                (
                    "id",
                    statecore.kernel.ids.IdField(
                        max_length=64,
                        primary_key=True,
                        serialize=False,
                        validators=[django.core.validators.RegexValidator("^[A-Za-z0-9._:-]{1,64}\\Z")],
                    ),
                ),
                ("version", models.PositiveIntegerField(default=0, editable=False)),
                ("chain_head", models.CharField(editable=False, max_length=64)),
                ("attempt", models.PositiveIntegerField(default=0, editable=False)),
                ("created_at", models.DateTimeField(db_index=True, editable=False)),
                ("updated_at", models.DateTimeField(editable=False)),
                ("state_entered_at", models.DateTimeField(editable=False)),
                (
                    "metadata",
                    models.JSONField(
                        blank=True, default=dict, validators=[statecore.kernel.validation.validate_json_object]
                    ),
                ),
                (
                    "state",
                    statecore.kernel.fields.StateField(
                        choices=[
                            ("pending", "pending"),
                            ("queued", "queued"),
                            ("running", "running"),
                            ("validating", "validating"),
                            ("completed", "completed"),
                            ("failed", "failed"),
                            ("retrying", "retrying"),
                            ("cancelled", "cancelled"),
                            ("blocked", "blocked"),
                        ],
                        default="pending",
                        editable=False,
                        max_length=32,
                        protected=True,
                    ),
                ),
                ("claimed_by", models.CharField(default="", editable=False, max_length=150)),
                ("is_critical", models.BooleanField(default=False)),
                ("priority", models.SmallIntegerField(default=0)),
                (
                    "required_capabilities",
                    models.JSONField(
                        blank=True, default=list, validators=[statecore.kernel.validation.validate_word_list]
                    ),
                ),
                (
                    "expected_exit_codes",
                    models.JSONField(
                        default=statecore.machines.task.zero_only,
                        validators=[statecore.kernel.validation.validate_exit_codes],
                    ),
                ),
                ("payload", models.JSONField(blank=True, default=dict)),
                (
                    "timeout_sec",
                    models.PositiveIntegerField(default=1800, validators=[django.core.validators.MinValueValidator(1)]),
                ),
                (
                    "max_retries",
                    models.PositiveSmallIntegerField(
                        default=3, validators=[django.core.validators.MaxValueValidator(100)]
                    ),
                ),
                ("retry_count", models.PositiveSmallIntegerField(default=0, editable=False)),
                ("retry_at", models.DateTimeField(editable=False, null=True)),
                ("lease_expires_at", models.DateTimeField(editable=False, null=True)),
                ("blocked_by", models.JSONField(default=list, editable=False)),
                ("started_at", models.DateTimeField(editable=False, null=True)),
                ("completed_at", models.DateTimeField(editable=False, null=True)),
                ("cancelled_at", models.DateTimeField(editable=False, null=True)),
                ("exit_code", models.IntegerField(editable=False, null=True)),
                ("output", models.TextField(default="", editable=False)),
                ("last_error", models.TextField(default="", editable=False)),
                ("depends_on", models.ManyToManyField(blank=True, related_name="dependents", to="statecore.task")),
                (
                    "patch",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tasks",
                        to="statecore.patchledger",
                    ),
                ),
                (
                    "phase",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="statecore.phase",
                    ),
                ),
                (
                    "retry_of",
                    models.OneToOneField(
                        blank=True,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="successor",
                        to="statecore.task",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tasks",
                        to="statecore.run",
                    ),
                ),
                ("entry_gates", models.ManyToManyField(blank=True, related_name="entry_of", to="statecore.testgate")),
                ("gates", models.ManyToManyField(blank=True, related_name="exit_of", to="statecore.testgate")),
                (
                    "worker",
                    models.ForeignKey(
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="tasks",
                        to="statecore.worker",
                    ),
                ),
                (
                    "workstream",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="tasks", to="statecore.workstream"
                    ),
                ),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view", "operate", "override"),
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["cancelled", "completed", "failed"]), _negated=True),
                        fields=["state", "state_entered_at"],
                        name="task_live_by_state",
                    ),
                    models.Index(
                        condition=models.Q(("state", "failed")), fields=["workstream"], name="task_failed_by_workstream"
                    ),
                    models.Index(
                        condition=models.Q(("state", "completed"), _negated=True),
                        fields=["workstream", "state_entered_at"],
                        name="task_open_by_workstream",
                    ),
                    models.Index(
                        condition=models.Q(("state", "queued")),
                        fields=["-priority", "state_entered_at", "id"],
                        name="task_queue",
                    ),
                    models.Index(
                        condition=models.Q(("state", "running")), fields=["lease_expires_at"], name="task_by_lease"
                    ),
                    models.Index(condition=models.Q(("state", "retrying")), fields=["retry_at"], name="task_by_retry"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            (
                                "state__in",
                                [
                                    "pending",
                                    "queued",
                                    "running",
                                    "validating",
                                    "completed",
                                    "failed",
                                    "retrying",
                                    "cancelled",
                                    "blocked",
                                ],
                            )
                        ),
                        name="task_state_is_known",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["running"]), ("worker__isnull", False)),
                            models.Q(
                                models.Q(("state__in", ["running"]), _negated=True),
                                models.Q(("worker__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="task_worker_exactly_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("state__in", ["cancelled", "completed", "failed"]), ("completed_at__isnull", False)
                            ),
                            models.Q(
                                models.Q(("state__in", ["cancelled", "completed", "failed"]), _negated=True),
                                models.Q(("completed_at__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="task_completed_at_exactly_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["cancelled"]), ("cancelled_at__isnull", False)),
                            models.Q(
                                models.Q(("state__in", ["cancelled"]), _negated=True),
                                models.Q(("cancelled_at__isnull", False), _negated=True),
                            ),
                            _connector="OR",
                        ),
                        name="task_cancelled_at_exactly_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["running"]), _negated=True),
                            ("started_at__isnull", False),
                            _connector="OR",
                        ),
                        name="task_started_at_set_in_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("retry_count__lte", models.F("max_retries"))),
                        name="task_retry_count_at_most_max_retries",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("started_at__isnull", True),
                            ("started_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="task_created_at_before_started_at",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("created_at__isnull", True),
                            ("completed_at__isnull", True),
                            ("completed_at__gte", models.F("created_at")),
                            _connector="OR",
                        ),
                        name="task_created_at_before_completed_at",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("started_at__isnull", True),
                            ("completed_at__isnull", True),
                            ("completed_at__gte", models.F("started_at")),
                            _connector="OR",
                        ),
                        name="task_started_at_before_completed_at",
                    ),
                ],
            },
        ),
    ]
