"""The messages of the API as types. Generated from the OpenAPI document by generate_messages.py; do not edit.

Times are seconds since 1970, durations are seconds, and memory is in bytes (docs/api.md).
"""

from typing import Dict, List, Literal, Optional, TypedDict

DependencyKind = Literal["after", "after_ok", "after_not_ok", "after_any", "singleton"]
Dialect = Literal["native", "slurm", "gflow", "valohai"]
PlacementStrategy = Literal["sequential", "random", "pack", "spread", "best"]
Preemptible = Literal["never", "pause", "requeue"]
TopologyNeed = Literal["any", "numa", "nvlink", "rack", "block"]


class ActionAnswer(TypedDict):
    results: List["ActionResult"]


class ActionRequest(TypedDict):
    select: "JobSelector"
    signal: int
    grace_s: Optional[float]
    reason: str
    at: float
    reach: str
    holds: bool


class ActionResult(TypedDict):
    id: int
    display_id: str
    is_done: bool
    message: str


class AgainView(TypedDict):
    spec: "JobSpec"
    left_out: List[str]


class AllocationPartView(TypedDict):
    component: int
    gpus: List[int]
    tasks: int


class AllocationView(TypedDict):
    node: str
    gpus: List[int]
    tasks: int
    parts: List["AllocationPartView"]


class ArraySpec(TypedDict):
    indices: str
    at_once: int


class BlockerView(TypedDict):
    kind: str
    text: str
    needed: int
    available: int
    holders: List[int]
    held_by: List["HolderView"]
    has_more_holders: bool
    rule: str


class CapsChange(TypedDict):
    running: Optional[int]
    queued: Optional[int]
    gpu_hours: Optional[float]
    cost: Optional[float]
    period: Optional[str]


class Capture(TypedDict):
    environment: List[str]
    limits: Dict[str, int]
    umask: int


class ChangeEvent(TypedDict):
    time: float
    kind: str
    id: Optional[int]
    state: str
    reason: str


class CheckpointAnswer(TypedDict):
    id: int
    gpus: str
    has_changed: bool


class CheckpointRequest(TypedDict):
    attempt: int


class Component(TypedDict):
    gpus: int
    gpu_type: str
    gpu_memory: int
    cpus: int
    memory: int
    tasks: int
    nodes: int
    short_nodes: int
    spreads_tasks: bool
    constraint: str
    node_list: List[str]
    excluded_nodes: List[str]
    pool: str
    labels: Dict[str, str]


class ComponentView(TypedDict):
    gpus: int
    gpu_type: str
    gpu_memory_bytes: int
    cpus: int
    memory_bytes: int
    tasks: int
    nodes: int
    short_nodes: int
    spreads_tasks: bool
    constraint: str
    node_list: List[str]
    excluded_nodes: List[str]
    pool: str


class ControllerView(TypedDict):
    name: str
    address: str
    version: str
    role: str
    epoch: int
    since: float
    lag_s: float
    ahead_s: float


class Dependency(TypedDict):
    kind: "DependencyKind"
    job: int
    element: Optional[int]
    delay: float


class EfficiencyReport(TypedDict):
    since: float
    until: float
    by: str
    gpu_hours: float
    utilization: float
    is_cut: bool
    rows: List["EfficiencyRow"]


class EfficiencyRow(TypedDict):
    group: str
    jobs: int
    gpu_hours: float
    utilization: float
    memory_peak_bytes: float
    cpu_cores: float
    cpu_use: Optional[float]
    job: Optional["RowJob"]


class ElementView(TypedDict):
    id: int
    parameters: Dict[str, str]
    metrics: Dict[str, float]


class ElementsView(TypedDict):
    elements: List["ElementView"]
    is_cut: bool


class EnvironmentView(TypedDict):
    variables: List["VariableView"]


class ErrorView(TypedDict):
    code: str
    message: str


class FairnessReport(TypedDict):
    since: float
    until: float
    by: str
    evenness_of_share: float
    evenness_of_slowdown: float
    is_cut: bool
    rows: List["FairnessRow"]


class FairnessRow(TypedDict):
    group: str
    jobs: int
    gpu_hours: float
    share: float
    wait_median_s: float
    wait_longest_s: float
    slowdown_median: float
    slowdown_p95: float


class ForecastAnswer(TypedDict):
    allocations: List["AllocationView"]
    id: int
    count: int
    state: str
    summary: str
    notes: List[str]
    predicted_start: Optional[float]
    prediction_basis: str
    nodes: List[str]


class FoundRequest(TypedDict):
    job: int
    ends: bool


class FoundView(TypedDict):
    job: int
    name: str
    user: str
    node: str
    gpus: List[int]
    started: float
    state: str
    exit_code: Optional[int]


class GpuPortion(TypedDict):
    request: float
    limit: float
    memory: int
    memory_limit: int
    compute: float
    compute_limit: float
    idle_park: float
    uses_mps: bool


class GpuProcessView(TypedDict):
    pid: int
    user: str
    command: str
    memory_bytes: int
    age_s: float
    is_graphics: bool
    job: Optional[int]
    is_ignored: bool


class GpuView(TypedDict):
    index: int
    uuid: str
    model: str
    memory_total_bytes: int
    memory_used_bytes: int
    state: str
    reason: str
    jobs: List[int]
    job_display_ids: List[str]
    pci_address: str
    numa_node: int
    compute_capability: str
    is_mig_enabled: bool
    slices: List[str]
    links: List[str]
    utilisation_percent: int
    temperature_celsius: int
    power_watts: int
    processes: List["GpuProcessView"]
    isolation: str
    node: str
    free: float
    tenants: List["TenantView"]
    reservation: str


class GroupLimitRequest(TypedDict):
    group: str
    limit: int


class HistoryEvent(TypedDict):
    time: float
    id: Optional[int]
    text: str


class HolderView(TypedDict):
    id: int
    display_id: str
    name: str
    user: str
    state: str
    node: str
    gpus: List[int]
    until: Optional[float]


class IgnoreAnswer(TypedDict):
    rules: List["IgnoreRule"]
    message: str


class IgnoreRequest(TypedDict):
    gpu: int
    pid: int
    is_ignored: bool
    node: str


class IgnoreRule(TypedDict):
    gpu: int
    pid: int
    start_ticks: int
    user: str
    command: str
    node: str


class JobInFull(TypedDict):
    timeline: List["TimelineLine"]
    all_indices: str
    progress: Optional["ProgressView"]
    speeds: str
    isolation: str
    node: str
    allocations: List["AllocationView"]
    step_count: int
    steps: List["StepView"]
    share: Optional["ShareView"]
    time_sharing: Optional["TimeSharingView"]
    id: int
    display_id: str
    name: str
    user: str
    state: str
    gpus: List[int]
    request: "RequestView"
    submit_time: float
    eligible_time: Optional[float]
    start_time: Optional[float]
    end_time: Optional[float]
    exit_code: Optional[int]
    signal: Optional[int]
    reason: str
    start_reason: str
    priority: int
    project: str
    group: str
    pool: str
    account: str
    qos: str
    comment: str
    dialect: str
    array_id: Optional[int]
    array_index: Optional[int]
    count: int
    array_indices: str
    array_at_once: int
    dependencies: List[str]
    restarts: int
    position: int
    team: str
    preemptible: str
    gpu_uuids: List[str]
    command: str
    script: str
    directory: str
    output: str
    error: str
    pid: int
    was_oom_killed: bool
    cpu_time_s: float
    memory_peak_bytes: int
    deadline: Optional[float]
    retries_left: int
    labels: Dict[str, str]
    notes: List[str]
    parameters: Dict[str, str]
    elements: Dict[str, int]
    wants_pty: bool
    is_foreground: bool
    history: List[str]


class JobSelector(TypedDict):
    ids: List[str]
    is_all: bool
    user: str
    states: List[str]
    name: str
    project: str
    group: str
    pools: List[str]
    accounts: List[str]
    qos: List[str]
    array: Optional[int]
    includes_final: bool
    limit: int
    since: float


class JobSpec(TypedDict):
    command: List[str]
    script: str
    arguments: List[str]
    name: str
    request: "Request"
    placement: "PlacementStrategy"
    is_placement_set: bool
    priority: int
    is_held: bool
    begin: Optional[float]
    time_limit: float
    end_by: Optional[float]
    warn: "WarnSignal"
    stop_signal: int
    resize_signal: int
    grace: float
    dependencies: List["Dependency"]
    needs_any_dependency: bool
    keeps_waiting: bool
    array: Optional["ArraySpec"]
    parameters: List["Parameter"]
    name_template: str
    retries: int
    retry_delay: float
    requeues_after_reboot: bool
    preemptible: "Preemptible"
    is_preemptible_set: bool
    group: str
    group_limit: int
    directory: str
    output: str
    error: str
    input: str
    appends_output: bool
    is_foreground: bool
    wants_pty: bool
    capture: "Capture"
    dialect: "Dialect"
    project: str
    team: str
    comment: str
    account: str
    pool: str
    labels: Dict[str, str]
    extra_environment: List[str]
    notes: List[str]
    queues_anyway: bool
    is_run_once: bool
    stale_grace: float


class JobUpdate(TypedDict):
    select: "JobSelector"
    gpus: Optional[int]
    gpu_type: Optional[str]
    gpu_memory_bytes: Optional[int]
    cpus: Optional[int]
    memory_bytes: Optional[int]
    priority: Optional[int]
    time_limit_s: Optional[float]
    begin: Optional[float]
    name: Optional[str]
    project: Optional[str]
    comment: Optional[str]
    group: Optional[str]
    array_at_once: Optional[int]
    retries: Optional[int]
    command: Optional[List[str]]
    dependencies: Optional[List[str]]
    output: Optional[str]
    tasks: Optional[int]
    placement: Optional["PlacementStrategy"]
    queues_anyway: bool
    keeps_waiting: Optional[bool]
    retry_delay_s: Optional[float]
    requeues_after_reboot: Optional[bool]
    script: Optional[str]
    arguments: Optional[List[str]]
    error: Optional[str]
    input: Optional[str]
    appends_output: Optional[bool]
    directory: Optional[str]
    environment: Optional[List[str]]
    warn: Optional["WarnSignal"]
    stop_signal: Optional[int]
    grace_s: Optional[float]
    account: Optional[str]
    pool: Optional[str]
    max_gpus: Optional[int]
    topology: Optional[str]
    preemptible: Optional["Preemptible"]
    nodes: Optional[int]
    constraint: Optional[str]
    node_list: Optional[List[str]]
    excluded_nodes: Optional[List[str]]
    fraction: Optional["GpuPortion"]
    slice: Optional[str]
    end_by: Optional[float]
    grows: Optional[bool]
    providers: Optional[str]
    max_price: Optional[str]


class JobView(TypedDict):
    id: int
    display_id: str
    name: str
    user: str
    state: str
    gpus: List[int]
    request: "RequestView"
    submit_time: float
    eligible_time: Optional[float]
    start_time: Optional[float]
    end_time: Optional[float]
    exit_code: Optional[int]
    signal: Optional[int]
    reason: str
    start_reason: str
    priority: int
    project: str
    group: str
    pool: str
    account: str
    qos: str
    comment: str
    dialect: str
    array_id: Optional[int]
    array_index: Optional[int]
    count: int
    array_indices: str
    array_at_once: int
    dependencies: List[str]
    restarts: int
    position: int
    team: str
    preemptible: str
    progress: Optional["ProgressView"]
    node: str
    allocations: List["AllocationView"]
    step_count: int
    is_foreground: bool
    share: Optional["ShareView"]
    time_sharing: Optional["TimeSharingView"]


class JobWaste(TypedDict):
    id: int
    display_id: str
    has_ended: bool
    gpu_hours: float
    lost_gpu_hours: float
    idle_gpu_hours: float
    lost_share: float
    lost_cost: Optional[float]
    is_small: bool
    findings: List["WasteFinding"]


class LatestAnswer(TypedDict):
    time: float
    is_on: bool
    gpus: List["LatestGpu"]
    slices: List["LatestSlice"]
    nodes: List["LatestNode"]
    jobs: List["LatestJob"]
    cluster: Dict[str, float]


class LatestGpu(TypedDict):
    node: str
    gpu: int
    time: float
    values: Dict[str, float]
    processes: List["LatestProcess"]


class LatestJob(TypedDict):
    id: int
    time: float
    values: Dict[str, float]
    own: Dict[str, float]


class LatestNode(TypedDict):
    node: str
    time: float
    values: Dict[str, float]


class LatestProcess(TypedDict):
    pid: int
    id: Optional[int]
    memory_bytes: float
    utilization: Optional[float]
    cpu_cores: Optional[float]
    host_memory_bytes: Optional[float]
    read_bytes_per_second: Optional[float]
    written_bytes_per_second: Optional[float]


class LatestSlice(TypedDict):
    node: str
    gpu: int
    instance: int
    time: float
    values: Dict[str, float]


class LeaderView(TypedDict):
    leads: bool
    name: str
    address: str
    epoch: int
    controllers: List[str]


class MessageAnswer(TypedDict):
    message: str


class NodeRequest(TypedDict):
    names: List[str]
    reason: str
    deadline_s: float
    labels: Dict[str, str]
    is_lost: bool


class NodeView(TypedDict):
    name: str
    state: str
    reason: str
    is_controller: bool
    gpus: int
    gpus_free: int
    jobs: int
    gpu_model: str
    gpu_source: str
    cpus: int
    memory_bytes: int
    version: str
    address: str
    last_contact: Optional[float]
    joined: Optional[float]
    deadline: Optional[float]
    labels: Dict[str, str]
    pools: List[str]
    gpu_uuids: List[str]
    reason_since: Optional[float]
    gpus_restricted: List[int]
    gpus_reserved: int
    exclusive_job: str


class NotifyAnswer(TypedDict):
    is_on: bool
    receivers: List["ReceiverView"]


class NotifyTestAnswer(TypedDict):
    is_done: bool
    message: str


class OccurrenceView(TypedDict):
    start: float
    end: float
    is_held: bool
    reason: str
    places: List["ReservedPlace"]


class OwnMetricsRequest(TypedDict):
    values: Dict[str, float]
    attempt: int
    lines_left_out: int
    names_left_out: int


class Parameter(TypedDict):
    name: str
    values: List[str]
    row_group: int


class PoolView(TypedDict):
    name: str
    state: str
    is_default: bool
    is_from_file: bool
    nodes: List[str]
    gpus: int
    gpus_free: int
    running: int
    queued: int
    gpus_held: float
    users: List[str]
    teams: List[str]
    max_time_s: Optional[float]
    default_time_s: Optional[float]
    min_gpus: Optional[int]
    max_gpus: Optional[int]
    max_nodes: Optional[int]
    running_limit: Optional[int]
    gpu_limit: Optional[int]
    policy: str
    placement: str
    priority: int
    is_exclusive: bool
    jobs_per_gpu: int
    gpus_reserved: int


class PortionRequest(TypedDict):
    select: "JobSelector"
    fraction: "GpuPortion"
    to: List[int]


class PredictionRow(TypedDict):
    group: str
    user: str
    is_all: bool
    predicted: int
    unpredicted: int
    median_ratio: Optional[float]
    within_factor_two: Optional[float]
    inside_interval: Optional[float]


class PredictionsReport(TypedDict):
    jobs: int
    since: float
    until: float
    by: str
    is_cut: bool
    rows: List["PredictionRow"]


class ProgressAnswer(TypedDict):
    id: int
    fraction: float
    expected_end: Optional[float]


class ProgressRequest(TypedDict):
    fraction: Optional[float]
    step: int
    steps: int
    attempt: int


class ProgressView(TypedDict):
    fraction: float
    step: int
    steps: int
    time: float
    expected_end: Optional[float]


class ProviderNodeView(TypedDict):
    node: str
    shape: str
    state: str
    instance: str
    requested: float
    joined: float
    expected: float
    hourly: float
    cost: float
    why: str


class ProviderRequest(TypedDict):
    name: str
    action: str


class ProviderView(TypedDict):
    name: str
    kind: str
    state: str
    nodes: int
    gpus: int
    unrequested: int
    hourly: float
    this_month: float
    max_nodes: Optional[int]
    max_gpus: Optional[int]
    max_per_hour: Optional[float]
    max_per_month: Optional[float]
    last_error: str
    last_error_at: float
    next_try: float
    list: List["ProviderNodeView"]


class QuotasRequest(TypedDict):
    are_on: bool


class ReceiverAnswer(TypedDict):
    message: str
    secret: str


class ReceiverName(TypedDict):
    name: str


class ReceiverRequest(TypedDict):
    name: str
    events: str
    webhook: str
    command: str
    mail: str
    secret: str
    replaces: bool


class ReceiverView(TypedDict):
    name: str
    user: str
    events: str
    channel: str
    target: str
    is_signed: bool
    may_be_removed: bool
    waiting: int
    sent: int
    lost: int
    last_success: float
    last_failure: float
    failure: str
    next_try: float


class RejoinRequest(TypedDict):
    had_streams: bool
    output: int
    error: int
    has_left: bool


class Request(TypedDict):
    gpus: int
    gpu_type: str
    gpu_memory: int
    cpus: int
    memory: int
    tasks: int
    max_gpus: int
    topology: "TopologyNeed"
    requires_topology: bool
    nodes: int
    short_nodes: int
    spreads_tasks: bool
    constraint: str
    node_list: List[str]
    excluded_nodes: List[str]
    others: List["Component"]
    fraction: "GpuPortion"
    slice: str


class RequestView(TypedDict):
    gpus: int
    gpu_type: str
    gpu_memory_bytes: int
    cpus: int
    memory_bytes: int
    tasks: int
    time_limit_s: float
    max_gpus: int
    topology: str
    placement: str
    nodes: int
    short_nodes: int
    spreads_tasks: bool
    constraint: str
    node_list: List[str]
    excluded_nodes: List[str]
    others: List["ComponentView"]
    fraction: "GpuPortion"
    slice: str
    end_by: Optional[float]


class ReservationName(TypedDict):
    which: str


class ReservationRequest(TypedDict):
    name: str
    gpus: int
    user: str
    team: str
    start: float
    duration_s: float
    every: str
    utc_offset_s: float


class ReservationView(TypedDict):
    number: int
    name: str
    gpus: int
    user: str
    team: str
    start: float
    duration_s: float
    every: str
    by: str
    occurrences: List["OccurrenceView"]


class ReservedPlace(TypedDict):
    node: str
    gpus: List[int]


class RestrictAnswer(TypedDict):
    gpus: List[int]
    message: str


class RestrictRequest(TypedDict):
    gpus: List[int]
    is_all: bool
    nodes: List[str]


class RowJob(TypedDict):
    id: int
    name: str
    user: str
    state: str


class ScriptAnswer(TypedDict):
    spec: "JobSpec"
    refusal: str


class ScriptQuestion(TypedDict):
    text: str
    directory: str


class SeriesAnswer(TypedDict):
    step_s: float
    begin: float
    series: List["SeriesView"]


class SeriesView(TypedDict):
    of: str
    node: str
    gpu: Optional[int]
    instance: Optional[int]
    id: Optional[int]
    metric: str
    unit: str
    mean: List[Optional[float]]
    min: List[Optional[float]]
    max: List[Optional[float]]
    step: List[Optional[float]]


class ServiceCanaryView(TypedDict):
    revision: int
    share: float
    hot: int
    starting: int
    requests: int
    errors: int
    recent_requests: int
    latency_p50_s: Optional[float]
    latency_p95_s: Optional[float]
    latency_p99_s: Optional[float]


class ServiceDefinition(TypedDict):
    settings: "ServiceSettings"
    spec: "JobSpec"
    secrets: "ServiceSecrets"
    canary: float
    keeps_same: bool


class ServiceDetail(TypedDict):
    replicas: List["ServiceReplicaView"]
    revisions: List["ServiceRevisionView"]
    events: List["ServiceEvent"]
    name: str
    user: str
    state: str
    url: str
    settings: "ServiceSettings"
    revision: int
    canary: Optional["ServiceCanaryView"]
    hot: int
    starting: int
    parked: int
    draining: int
    has_tls: bool
    tokens: int
    in_flight: int
    queued: int
    requests_per_second: float
    requests: int
    errors: int
    metric: Optional[float]
    queue_time_s: float
    answer_time_s: float
    recent_requests: int
    latency_p50_s: Optional[float]
    latency_p95_s: Optional[float]
    latency_p99_s: Optional[float]
    first_byte_p50_s: Optional[float]
    first_byte_p95_s: Optional[float]
    first_byte_p99_s: Optional[float]
    gpus: float
    gpus_used: Optional[float]
    cost_per_hour: Optional[float]
    cost_per_1000_requests: Optional[float]
    last_wake_s: float
    scaled: str
    note: str


class ServiceEvent(TypedDict):
    at: float
    text: str


class ServiceReplicaView(TypedDict):
    job: int
    number: int
    revision: int
    state: str
    address: str
    in_flight: int
    since: float
    note: str


class ServiceRevisionView(TypedDict):
    number: int
    state: str
    command: str
    made: float
    note: str


class ServiceRollback(TypedDict):
    revision: int


class ServiceScale(TypedDict):
    min_replicas: int
    max_replicas: int


class ServiceSecrets(TypedDict):
    certificate: str
    tokens: List[str]
    makes_token: bool
    removes_certificate: bool
    removes_tokens: bool


class ServiceSettings(TypedDict):
    name: str
    port: int
    min_replicas: int
    max_replicas: int
    concurrency: int
    target: float
    requests_per_second: float
    metric: str
    health: str
    idle_s: float
    up_delay_s: float
    down_delay_s: float
    ready_within_s: float
    wait_s: float
    answer_within_s: float
    wake_within_s: float
    max_body_bytes: int
    parks: bool


class ServiceView(TypedDict):
    name: str
    user: str
    state: str
    url: str
    settings: "ServiceSettings"
    revision: int
    canary: Optional["ServiceCanaryView"]
    hot: int
    starting: int
    parked: int
    draining: int
    has_tls: bool
    tokens: int
    in_flight: int
    queued: int
    requests_per_second: float
    requests: int
    errors: int
    metric: Optional[float]
    queue_time_s: float
    answer_time_s: float
    recent_requests: int
    latency_p50_s: Optional[float]
    latency_p95_s: Optional[float]
    latency_p99_s: Optional[float]
    first_byte_p50_s: Optional[float]
    first_byte_p95_s: Optional[float]
    first_byte_p99_s: Optional[float]
    gpus: float
    gpus_used: Optional[float]
    cost_per_hour: Optional[float]
    cost_per_1000_requests: Optional[float]
    last_wake_s: float
    scaled: str
    note: str


class ShareView(TypedDict):
    part: str
    state: str
    note: str
    mechanism: str
    is_movable: bool
    gpus: List["SharedGpuView"]


class SharedGpuView(TypedDict):
    gpu: int
    planned_gpu: int
    request_bytes: int
    limit_bytes: int
    current_limit_bytes: int
    used_bytes: int
    borrowed_bytes: int
    compute: float
    compute_request: float
    compute_limit: float
    is_compute_known: bool


class SharesReport(TypedDict):
    since: float
    until: float
    by: str
    step_s: float
    is_cut: bool
    rows: List["SharesRow"]


class SharesRow(TypedDict):
    group: str
    gpu_hours: float
    gpus: List[float]
    share: List[Optional[float]]
    quota: List[Optional[float]]
    limit: List[Optional[float]]


class SpeedRow(TypedDict):
    user: str
    name: str
    command: str
    gpus: int
    model: str
    speed: float
    runs: int
    by: str


class SpeedsReport(TypedDict):
    runs_needed: int
    rows: List["SpeedRow"]


class StartView(TypedDict):
    id: int
    start: Optional[float]
    basis: str


class StartsAnswer(TypedDict):
    time: float
    is_complete: bool
    starts: List["StartView"]


class StatusView(TypedDict):
    pid: int
    version: str
    uptime_s: float
    home: str
    socket: str
    user: str
    is_machine_wide: bool
    gpu_source: str
    policy: str
    isolation: str
    listens: str
    gpus: int
    gpus_free: int
    jobs_queued: int
    jobs_held: int
    jobs_running: int
    jobs_total: int
    accepts_work: bool
    trouble: str
    warnings: List[str]
    gpus_reserved: int
    node: str
    gpus_borrowed: int
    time_sharing: str


class StepTaskView(TypedDict):
    rank: int
    node: str
    gpus: List[int]
    cores: str


class StepView(TypedDict):
    number: int
    name: str
    state: str
    tasks: int
    gpus: str
    start_time: Optional[float]
    end_time: Optional[float]
    exit_code: Optional[int]
    command: str
    allocations: List["AllocationView"]
    task_map: List["StepTaskView"]
    time_limit_s: float


class SubmitRequest(TypedDict):
    spec: "JobSpec"
    is_test: bool
    key: str


class SweepDetail(TypedDict):
    parameters: List[str]
    list: List["SweepTrialView"]
    id: int
    name: str
    user: str
    state: str
    method: str
    metric: str
    goal: str
    resource: str
    target: Optional[float]
    early_terminate: str
    min_iter: float
    max_iter: float
    eta: int
    park_losers: bool
    parallel: int
    trials: int
    waiting: int
    running: int
    paused: int
    parked: int
    stopped: int
    ended: int
    wanted: int
    best_trial: Optional[int]
    best: Optional[float]
    note: str


class SweepTell(TypedDict):
    parameters: Dict[str, str]


class SweepTold(TypedDict):
    id: int
    trial: int


class SweepTrialView(TypedDict):
    id: int
    trial: int
    state: str
    parameters: Dict[str, str]
    best: Optional[float]
    best_at: float
    last: Optional[float]
    last_at: float
    rungs: List[Optional[float]]
    note: str


class SweepView(TypedDict):
    id: int
    name: str
    user: str
    state: str
    method: str
    metric: str
    goal: str
    resource: str
    target: Optional[float]
    early_terminate: str
    min_iter: float
    max_iter: float
    eta: int
    park_losers: bool
    parallel: int
    trials: int
    waiting: int
    running: int
    paused: int
    parked: int
    stopped: int
    ended: int
    wanted: int
    best_trial: Optional[int]
    best: Optional[float]
    note: str


class TeamChange(TypedDict):
    name: str
    is_new: bool
    parent: Optional[str]
    quota: Optional[float]
    limit: Optional[float]
    weight: Optional[int]
    priority: Optional[int]
    add_users: List[str]
    remove_users: List[str]
    add_groups: List[str]
    remove_groups: List[str]
    add_leads: List[str]
    remove_leads: List[str]
    limits: "CapsChange"
    clear: List[str]


class TeamMemberView(TypedDict):
    team: str
    user: str
    used_gpu_hours: float
    used_cost: float


class TeamName(TypedDict):
    name: str


class TeamView(TypedDict):
    name: str
    parent: str
    depth: int
    quota: Optional[float]
    limit: Optional[float]
    weight: int
    priority: int
    users: List[str]
    groups: List[str]
    leads: List[str]
    team: str
    gpu_limit: Optional[int]
    running_limit: Optional[int]
    queued_limit: Optional[int]
    budget_gpu_hours: Optional[float]
    budget_cost: Optional[float]
    period: str
    running: int
    queued: int
    gpus: float
    share: Optional[float]
    used_gpu_hours: float
    used_cost: float
    max_per_hour: Optional[float]
    max_per_month: Optional[float]
    nodes_per_hour: float
    nodes_this_month: float
    blocker: str
    is_from_file: bool


class TeamsView(TypedDict):
    are_quotas_on: bool
    teams: List["TeamView"]
    users: List["TeamView"]
    members: List["TeamMemberView"]


class TenantView(TypedDict):
    job: int
    display_id: str
    name: str
    user: str
    state: str
    share: str
    request: float
    request_bytes: int
    limit_bytes: int
    current_limit_bytes: int
    used_bytes: int
    borrowed_bytes: int
    compute: float
    compute_request: float
    compute_limit: float
    is_compute_known: bool
    planned_gpu: int
    mechanism: str
    is_movable: bool
    note: str


class TimeSharingView(TypedDict):
    stage: str
    is_parked: bool
    parked_for: str
    lost_s: float
    returns_by: Optional[float]
    why_kept: str


class TimelineLine(TypedDict):
    time: float
    text: str


class TokenAnswer(TypedDict):
    id: str
    line: str
    message: str


class TokenName(TypedDict):
    id: str


class TokenRequest(TypedDict):
    user: str
    role: str
    label: str
    lifetime_s: float
    at: str
    uses: int


class TokenView(TypedDict):
    id: str
    user: str
    role: str
    label: str
    made_by: str
    made_at: float
    expires: float
    has_expired: bool
    uses_left: int


class UiLinkAnswer(TypedDict):
    url: str
    lifetime_s: float
    fingerprint: str
    message: str


class UiLinkRequest(TypedDict):
    is_remote: bool


class UiMe(TypedDict):
    user: str
    uid: int
    is_admin: bool
    may_change: bool
    time: float
    host: str
    program: str


class UsageReport(TypedDict):
    since: float
    until: float
    by: str
    gpu_hours: float
    capacity_gpu_hours: float
    is_cut: bool
    nodes_cost: Optional[float]
    unused_nodes_cost: Optional[float]
    rows: List["UsageRow"]


class UsageRow(TypedDict):
    group: str
    jobs: int
    running: int
    failed: int
    gpu_hours: float
    failed_gpu_hours: float
    share: float
    wait_mean_s: Optional[float]
    wait_median_s: Optional[float]
    wait_p95_s: Optional[float]
    job: Optional["RowJob"]
    nodes_cost: Optional[float]
    nodes_share: Optional[float]


class UserChange(TypedDict):
    user: str
    team: Optional[str]
    gpus: Optional[int]
    limits: "CapsChange"
    clear: List[str]


class ValohaiAnswer(TypedDict):
    problems: List["ValohaiProblemView"]
    steps: List["ValohaiStepView"]
    tasks: List["ValohaiTaskView"]
    spec: Optional["JobSpec"]
    refusal: str


class ValohaiInputView(TypedDict):
    name: str
    defaults: List[str]
    is_optional: bool
    description: str


class ValohaiParameterView(TypedDict):
    name: str
    type: str
    defaults: Optional[List[str]]
    is_optional: bool
    is_multiple: bool
    min: Optional[float]
    max: Optional[float]
    choices: List[str]
    description: str


class ValohaiProblemView(TypedDict):
    line: int
    is_warning: bool
    text: str


class ValohaiQuestion(TypedDict):
    text: str
    directory: str
    step: str
    title: str
    parameters: Dict[str, List[str]]
    inputs: Dict[str, List[str]]
    variables: Dict[str, str]


class ValohaiStepView(TypedDict):
    name: str
    image: str
    description: str
    environment: str
    time_limit_s: float
    commands: List[str]
    parameters: List["ValohaiParameterView"]
    inputs: List["ValohaiInputView"]
    variables: List["ValohaiVariableView"]


class ValohaiTaskView(TypedDict):
    name: str
    step: str
    type: str
    parameters: List[str]


class ValohaiVariableView(TypedDict):
    name: str
    value: Optional[str]
    is_optional: bool


class VariableView(TypedDict):
    name: str
    value: str
    is_asked: bool


class WaitAnswer(TypedDict):
    id: int
    state: str
    exit_code: int
    reason: str
    was_detached: bool


class WarnSignal(TypedDict):
    signal: int
    before: float
    batch_only: bool


class WasteAnswer(TypedDict):
    time: float
    is_on: bool
    wasted_gpus: float
    jobs: List["WastefulJob"]


class WasteFinding(TypedDict):
    kind: str
    since: float
    gpus: float
    text: str
    remedy: str


class WasteReport(TypedDict):
    since: float
    until: float
    by: str
    gpu_hours: float
    lost_gpu_hours: float
    idle_gpu_hours: float
    lost_cost: Optional[float]
    is_cut: bool
    rows: List["WasteRow"]
    now: "WasteAnswer"


class WasteRow(TypedDict):
    group: str
    jobs: int
    gpu_hours: float
    lost_gpu_hours: float
    idle_gpu_hours: float
    lost_share: float
    lost_cost: Optional[float]
    job: Optional["RowJob"]
    is_small: bool
    findings: List["WasteFinding"]


class WastefulJob(TypedDict):
    id: int
    display_id: str
    name: str
    user: str
    team: str
    gpu_model: str
    gpus: float
    start_time: float
    wasted_gpus: float
    gpu_hours: float
    lost_gpu_hours: float
    idle_gpu_hours: float
    lost_cost: Optional[float]
    findings: List["WasteFinding"]
    action: str
    action_text: str
    action_time: Optional[float]
    warnings: int
    max_warnings: int


class WhyView(TypedDict):
    id: int
    display_id: str
    name: str
    user: str
    state: str
    summary: str
    blockers: List["BlockerView"]
    position: int
    ahead_gpus: int
    key: str
    predicted_start: Optional[float]
    prediction_basis: str
    would_start_now: str
    command: str
    speeds: str
    share: Optional["ShareView"]


class WinsizeRequest(TypedDict):
    rows: int
    columns: int


class WordView(TypedDict):
    text: str
    members: List[str]
    is_option: bool
    is_of_script: bool


class WordsAnswer(TypedDict):
    words: List["WordView"]
    line: str
    refusal: str


class WordsQuestion(TypedDict):
    spec: "JobSpec"
