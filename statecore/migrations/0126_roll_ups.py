from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("statecore", "0140_restore_drills"),
    ]

    operations = [
        migrations.AddField(
            model_name="sinkcursor",
            name="written",
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.CreateModel(
            name="CapabilityRollUp",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("resolution", models.PositiveSmallIntegerField()),
                ("start", models.DateTimeField()),
                ("capability", models.CharField(max_length=100)),
                ("state", models.CharField(max_length=32)),
                ("bucket", models.PositiveSmallIntegerField()),
                ("count", models.BigIntegerField(default=0)),
                ("failures", models.BigIntegerField(default=0)),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view",),
                "indexes": [models.Index(fields=["resolution", "start"], name="capability_roll_up_by_start")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("resolution", "capability", "state", "start", "bucket"), name="capability_roll_up"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="DwellRollUp",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("resolution", models.PositiveSmallIntegerField()),
                ("start", models.DateTimeField()),
                ("entity_type", models.CharField(max_length=32)),
                ("state", models.CharField(max_length=32)),
                ("bucket", models.PositiveSmallIntegerField()),
                ("count", models.BigIntegerField(default=0)),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view",),
                "indexes": [models.Index(fields=["resolution", "start"], name="dwell_roll_up_by_start")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("resolution", "entity_type", "state", "start", "bucket"), name="dwell_roll_up"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="LoadRollUp",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("resolution", models.PositiveSmallIntegerField()),
                ("start", models.DateTimeField()),
                ("measure", models.CharField(max_length=16)),
                ("subject", models.CharField(max_length=100)),
                ("total", models.BigIntegerField(default=0)),
                ("samples", models.BigIntegerField(default=0)),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(fields=("resolution", "start", "measure", "subject"), name="load_roll_up")
                ],
            },
        ),
        migrations.CreateModel(
            name="TransitionRollUp",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("resolution", models.PositiveSmallIntegerField()),
                ("start", models.DateTimeField()),
                ("entity_type", models.CharField(max_length=32)),
                ("from_state", models.CharField(max_length=32)),
                ("to_state", models.CharField(max_length=32)),
                ("count", models.BigIntegerField(default=0)),
                ("failures", models.BigIntegerField(default=0)),
                ("overrides", models.BigIntegerField(default=0)),
            ],
            options={
                "abstract": False,
                "default_permissions": ("view",),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("resolution", "start", "entity_type", "from_state", "to_state"),
                        name="transition_roll_up",
                    )
                ],
            },
        ),
    ]
