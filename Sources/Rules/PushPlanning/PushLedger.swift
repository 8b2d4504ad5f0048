import AccessLimits
package import Addressing
package import Bytes
package import Calling
package import ProxyPolicy
package import PushDelivery
package import Registration
package import Telemetry
package import Timekeeping

/// The state of all pushes: active pushes, rate limits, unread pushes (the badge), missed calls and the timeline.
///
/// The ``PushDispatcher`` decides when and how a push is sent to its provider. A ``PushLedger`` does no input or
/// output: the engine reports events, and the ledger appends orders to `actions`.
package struct PushLedger: ~Copyable {
    package internal(set) var pushes: [PushID: AskedPush] = [:]
    package let dispatcher: PushDispatcher
    /// A buffer for the dispatcher's orders, kept to reuse its memory.
    var orders: [PushDispatcher.Action] = []
    package internal(set) var timeline: PushTimeline
    package internal(set) var unread: UnreadPushes
    package var buckets: BucketTable
    package var refreshes: RefreshPushes
    var limits: PushRates
    /// The rate limit of log lines about refused pushes of callers.
    var lines = CallerLines()
    /// The limit of timeline records for each caller (T32.5).
    var timelineShares: TimelineShares
    /// The devices whose list of missed calls waits for a retry.
    var failedReports: [DeviceID: FailedReport] = [:]
    package internal(set) var timers = DeadlineQueue<LedgerTimer>()
    package let log: Log
    package let random: () -> UInt64
    /// The number of the last push.
    var lastPush: UInt64 = 0
    private var lastRecord: UInt64 = 0

    package init(
        _ settings: ProxySettings, restoring entries: [StoredBucketEntry], random: @escaping () -> UInt64,
        deviceCode: @escaping (DeviceID) -> ByteString? = { _ in nil }, log: Log
    ) {
        dispatcher = PushDispatcher(settings.dispatch, deviceCode: deviceCode, log: log)
        timeline = PushTimeline(limit: settings.timelineLimit)
        unread = UnreadPushes(limit: settings.unreadLimit, maximumAge: settings.unreadAge)
        buckets = BucketTable(settings: settings.sharedBucket, restoring: entries)
        limits = PushRates(settings)
        refreshes = RefreshPushes(
            tries: settings.registrar.refreshPushTries, perSecond: settings.registrar.refreshPushRate)
        timelineShares = TimelineShares(settings)
        self.random = random
        self.log = log
    }

    /// Applies changed settings to the limits.
    package mutating func settingsChanged(_ settings: ProxySettings) {
        limits.changed(settings)
        buckets.settings = settings.sharedBucket
    }

    // MARK: Limits

    /// Whether the caller's rate limit allows one more push to any device; an allowed push is counted.
    package mutating func admits(_ caller: Caller, now: Instant) -> Bool { limits.admits(caller, now: now) }

    /// Decides whether the log gets a line about a caller whose calls wake no phone.
    ///
    /// - Returns: the number of suppressed log lines since the last line; `nil` if the new line is suppressed too.
    package mutating func tellsOfRefused(_ caller: Caller, now: Instant) -> Int? { lines.admit(caller, now: now) }

    /// Whether the push token's rate limit allows one more test push; an allowed test push is counted.
    package mutating func admitsTest(of token: PushToken, now: Instant) -> Bool {
        limits.admitsTest(of: token, now: now)
    }

    /// Whether the rate limits allow a push to the device for something other than a call: see ``PushRates``.
    package func mayNotify(_ device: DeviceID, for caller: Caller?, now: Instant) -> Bool {
        limits.mayNotify(device, for: caller, now: now)
    }

    /// Counts a push to the device, if the push is not about a call.
    package mutating func notified(_ device: DeviceID, for caller: Caller?, now: Instant) {
        limits.notified(device, for: caller, now: now)
    }

    /// Takes the counts of pushes for the other nodes: see ``UntoldCounts/take(now:)``.
    package mutating func takeCounts(now: Instant) -> (counts: [SharedCount], dropped: Int) {
        limits.takeCounts(now: now)
    }

    /// Counts pushes that another node has sent.
    package mutating func add(_ told: SharedCount, now: Instant) { limits.add(told, now: now) }

    // MARK: Unread pushes

    /// Counts an unread push of the device.
    ///
    /// - Returns: the number of the device's unread pushes, for the badge.
    package mutating func becameUnread(
        _ code: PushCode, _ matter: UnreadPushes.Matter, by device: DeviceID, at date: UnixTime
    ) -> Int {
        unread.asked(code, matter, by: device, at: date)
    }

    // MARK: Names

    /// A random code for a new push.
    ///
    /// A correct code proves that an app got the push, because nobody can guess the code.
    package func newCode() -> PushCode { PushCode(high: random(), low: random()) }

    mutating func newRecordID() -> RecordID {
        lastRecord &+= 1
        return RecordID(rawValue: lastRecord)
    }

    // MARK: Timers

    /// The time at which ``timePassed(now:into:)`` or ``due(now:into:)`` has work. The time is in the past if results
    /// of pushes wait.
    package var nextDeadline: Instant? {
        if dispatcher.hasOutcomes { return .distantPast }
        guard let timer = timers.nextDeadline, let dispatch = dispatcher.nextDeadline else {
            return timers.nextDeadline ?? dispatcher.nextDeadline
        }
        return min(timer, dispatch)
    }

    /// Handles fired timers up to the first timer for a list of missed calls.
    ///
    /// - Returns: the device whose list of missed calls is due; `nil` if no fired timer is left.
    package mutating func due(now: Moment, into actions: inout some PushOrders) -> (
        device: DeviceID, aor: AddressOfRecord
    )? {
        while let timer = timers.popExpired(now: now.instant) {
            switch timer {
            case .report(let device, let aor): return (device, aor)
            case .sweep: sweep(now: now, into: &actions)
            }
        }
        return nil
    }
}

/// A push that was ordered and has not ended.
///
/// ``AskedPush`` is a class, because each step of a push changes the same instance.
package final class AskedPush {
    /// The reason why the push is sent.
    package enum Purpose {
        case call(ProxiedRequest, branch: Int)
        case missedCalls([CallRef])
        case notification
        /// The push wakes the phone for messages that wait for the phone.
        case message
        /// The push tests whether the push provider accepts a push token.
        case dryRun(DryRunTicket)
        /// A test push, which an operator sends to see the push provider's answer.
        case test(TestPush)
    }

    package let purpose: Purpose
    package let code: PushCode
    package let device: DeviceID
    package let aor: AddressOfRecord
    /// The push's timeline record; `nil` if no record is kept.
    package let record: RecordID?
    /// Whether the branch that ordered the push no longer needs the push.
    package internal(set) var isDropped = false
    /// Whether the push was sent to the provider at least once.
    package internal(set) var hasLeft = false
    /// Whether the push was not sent because its provider is paused.
    package internal(set) var isPaused = false
    /// The push about the call's end, sent after the provider has accepted the call's push; `nil` while the call
    /// continues.
    package internal(set) var end: EndedCallNotice?

    package init(_ purpose: Purpose, _ code: PushCode, device: DeviceID, aor: AddressOfRecord, record: RecordID?) {
        self.purpose = purpose
        self.code = code
        self.device = device
        self.aor = aor
        self.record = record
    }
}

package enum LedgerTimer: Sendable {
    /// A list of missed calls is due. Either the provider refused the list earlier, or the list waited for a phone's
    /// response to the INVITE of an ended call.
    case report(DeviceID, AddressOfRecord)
    /// Some missed calls are too old and must be dropped.
    case sweep
}

/// A list of missed calls that waits for a retry.
package struct FailedReport {
    package internal(set) var count: Int
    package let timer: DeadlineID
}
