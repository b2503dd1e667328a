import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import statecore.kernel.ids


class Migration(migrations.Migration):
    safe_because = "the new column has a default in the database, and the previous version ignores webhooks"

    dependencies = [
        ("statecore", "0077_schedules"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="alertnotice",
            name="urgency",
            field=models.CharField(db_default="info", default="info", max_length=16),
        ),
        migrations.CreateModel(
            name="Webhook",
            fields=[
                ("id", statecore.kernel.ids.IdField(max_length=64, primary_key=True, serialize=False)),
                ("url", models.CharField(max_length=2000)),
                ("filter", models.JSONField(default=dict)),
                ("description", models.CharField(blank=True, default="", max_length=200)),
                ("run_id", models.CharField(blank=True, default="", max_length=64)),
                ("created_at", models.DateTimeField()),
                ("created_by", models.CharField(max_length=150)),
                ("secret", models.TextField()),
                ("previous_secret", models.TextField(blank=True, default="")),
                ("previous_until", models.DateTimeField(null=True)),
                ("position", models.BigIntegerField(default=0)),
                ("epoch", models.PositiveIntegerField(default=1)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("failing_since", models.DateTimeField(null=True)),
                ("next_try_at", models.DateTimeField(null=True)),
                ("last_success_at", models.DateTimeField(null=True)),
                ("last_failure_at", models.DateTimeField(null=True)),
                ("test", models.CharField(blank=True, default="", max_length=64)),
                ("finished_at", models.DateTimeField(null=True)),
                ("disabled_at", models.DateTimeField(null=True)),
                ("disabled_by", models.CharField(blank=True, default="", max_length=150)),
                ("disabled_reason", models.CharField(blank=True, default="", max_length=500)),
                ("fence", models.PositiveBigIntegerField(default=0)),
                ("leased_until", models.DateTimeField(null=True)),
                (
                    "owner",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="webhooks",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "default_permissions": ("view", "add", "change", "delete"),
            },
        ),
        migrations.CreateModel(
            name="WebhookBacklog",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("entity_type", models.CharField(max_length=32)),
                ("entity_id", models.CharField(max_length=64)),
                ("position", models.BigIntegerField()),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("failing_since", models.DateTimeField()),
                ("next_try_at", models.DateTimeField()),
                (
                    "webhook",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="backlog", to="statecore.webhook"
                    ),
                ),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="WebhookDelivery",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("message_id", models.CharField(max_length=129)),
                ("name", models.CharField(max_length=64)),
                ("position", models.BigIntegerField(null=True)),
                ("event_id", models.CharField(blank=True, default="", max_length=64)),
                ("entity_type", models.CharField(blank=True, default="", max_length=32)),
                ("entity_id", models.CharField(blank=True, default="", max_length=64)),
                ("attempt", models.PositiveIntegerField()),
                ("at", models.DateTimeField()),
                ("duration_ms", models.PositiveIntegerField()),
                ("status", models.PositiveSmallIntegerField(null=True)),
                ("is_delivered", models.BooleanField()),
                ("error", models.CharField(blank=True, default="", max_length=200)),
                ("response", models.TextField(blank=True, default="")),
                (
                    "webhook",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="deliveries", to="statecore.webhook"
                    ),
                ),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.AddIndex(
            model_name="webhook",
            index=models.Index(condition=models.Q(("run_id", "")), fields=["id"], name="webhook_subscription"),
        ),
        migrations.AddIndex(
            model_name="webhook",
            index=models.Index(
                condition=models.Q(("finished_at", None), models.Q(("run_id", ""), _negated=True)),
                fields=["run_id"],
                name="webhook_of_run",
            ),
        ),
        migrations.AddIndex(
            model_name="webhook",
            index=models.Index(
                condition=models.Q(("run_id", ""), _negated=True), fields=["finished_at"], name="webhook_finished"
            ),
        ),
        migrations.AddConstraint(
            model_name="webhookbacklog",
            constraint=models.UniqueConstraint(
                fields=("webhook", "entity_type", "entity_id"), name="webhook_backlog_of_entity"
            ),
        ),
        migrations.AddIndex(
            model_name="webhookdelivery",
            index=models.Index(fields=["webhook", "-id"], name="webhook_delivery_newest"),
        ),
        migrations.AddIndex(
            model_name="webhookdelivery",
            index=models.Index(fields=["at"], name="webhook_delivery_oldest"),
        ),
    ]
