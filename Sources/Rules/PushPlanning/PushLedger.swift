import AccessLimits
package import Addressing
package import Bytes
package import Calling
package import ProxyPolicy
package import PushDelivery
package import Registration
package import Routing
package import Telemetry
package import Timekeeping

/// The state of all pushes: active pushes, rate limits, unread pushes (the badge), missed calls and the timeline.
///
/// The ``PushDispatcher`` decides when and how a push is sent to its provider. A ``PushLedger`` does no input or
/// output: the engine reports events, and the ledger appends orders to `actions`.
package struct PushLedger: ~Copyable {
    package private(set) var pushes: [PushID: AskedPush] = [:]
    package let dispatcher: PushDispatcher
    /// A buffer for the dispatcher's orders, kept to reuse its memory.
    private var orders: [PushDispatcher.Action] = []
    package internal(set) var timeline: PushTimeline
    package internal(set) var unread: UnreadPushes
    package internal(set) var buckets: BucketTable
    package var refreshes: RefreshPushes
    private var limits: PushRates
    /// The rate limit of log lines about refused pushes of callers.
    private var lines = CallerLines()
    /// The limit of timeline records for each caller (T32.5).
    var timelineShares: TimelineShares
    /// The devices whose list of missed calls waits for a retry.
    var failedReports: [DeviceID: FailedReport] = [:]
    package internal(set) var timers = DeadlineQueue<LedgerTimer>()
    package let log: Log
    package let random: () -> UInt64
    private var lastPush: UInt64 = 0
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

    /// Adds an active push, and returns its id.
    package mutating func begin(_ push: AskedPush) -> PushID {
        lastPush &+= 1
        let id = PushID(rawValue: lastPush)
        pushes[id] = push
        return id
    }

    // MARK: Sending

    /// Passes a push to the dispatcher; ``nextOutcome()`` returns the result of the push.
    package mutating func send(_ request: PushRequest, now: Moment, into actions: inout some PushOrders) {
        dispatcher.pushAsked(request, now: now)
        carryOut(now: now, into: &actions)
    }

    /// Passes an event to the dispatcher: a push provider's answer, or a made or failed credential.
    package mutating func happened(_ event: PushDispatcher.Event, now: Moment, into actions: inout some PushOrders) {
        dispatcher.happened(event, now: now)
        carryOut(now: now, into: &actions)
    }

    /// Starts the dispatcher, which fetches credentials before a push needs them.
    package mutating func started(now: Moment, into actions: inout some PushOrders) {
        dispatcher.started(now: now)
        carryOut(now: now, into: &actions)
    }

    /// Replaces the credentials for push providers by credentials that were read again from files.
    package mutating func credentialsChanged(
        _ credentials: PushCredentials, now: Moment, into actions: inout some PushOrders
    ) {
        dispatcher.credentialsChanged(credentials, now: now)
        carryOut(now: now, into: &actions)
    }

    private mutating func carryOut(now: Moment, into actions: inout some PushOrders) {
        dispatcher.takeActions(into: &orders)
        // The orders are processed from the end of the reversed array, because removing the last element copies no
        // order.
        orders.reverse()
        while let order = orders.popLast() {
            switch order {
            case .tell(let id, let step): noted(id, step, now: now, into: &actions)
            case .send(let transmission): actions.send(transmission)
            case .makeCredential(let credential): actions.makeCredential(credential)
            }
        }
    }

    // MARK: Outcomes

    /// Removes and returns a push that has ended, with its final result, even if no branch waits for the push any more.
    /// If no further push has ended, ``nextOutcome()`` returns `nil`.
    package mutating func nextOutcome() -> (push: AskedPush, outcome: PushOutcome)? {
        while let (id, outcome) = dispatcher.nextOutcome() {
            guard let push = pushes.removeValue(forKey: id) else { continue }
            if !outcome.isAccepted { unread.ended(push.code, of: push.device) }
            return (push, outcome)
        }
        return nil
    }

    /// Notes a step of a push in the push's timeline record.
    ///
    /// The method tells the fork whether a push was sent, so that a phone that is lost later gets no second push.
    private mutating func noted(_ id: PushID, _ step: PushStep, now: Moment, into actions: inout some PushOrders) {
        guard let push = pushes[id] else { return }
        if case .sent = step { push.hasLeft = true }
        if case .refused(.paused) = step { push.isPaused = true }
        if case .call(let call, let branch) = push.purpose, !push.isDropped {
            if push.isPaused { call.saw(.pushPaused) }
            switch step {
            case .sent: call.fork.pushLeft(branch)
            case .answered(let outcome, _, _) where !outcome.isAccepted: call.fork.pushRefused(branch)
            case .queued, .refused, .answered, .finished, .withdrawn: break
            }
        }
        if case .withdrawn = step, let push = pushes.removeValue(forKey: id) {
            unread.ended(push.code, of: push.device)
        }
        if let record = push.record {
            let complete = timeline.noted(record, step, now: now.instant)
            if case .test(let test) = push.purpose { test.ended(with: complete) }
            keep(complete, into: &actions)
        }
    }

    /// Drops a branch's push that is no longer needed, and withdraws the push if it was not sent yet.
    ///
    /// If the push was already sent, the provider's answer still changes the badge, the timeline record and the token,
    /// but not the branch. The parameter `end` is a push about the end of the call. It is sent if the provider accepts the dropped
    /// push after all.
    package mutating func drop(
        _ branch: Int, of call: ProxiedRequest, owing end: EndedCallNotice? = nil, now: Moment,
        into actions: inout some PushOrders
    ) {
        guard let id = call.fork.takePush(branch) else { return }
        if let push = pushes[id] {
            push.isDropped = true
            push.end = end
            if !push.hasLeft { unread.ended(push.code, of: push.device) }
        }
        dispatcher.cancelled(id, now: now)
        carryOut(now: now, into: &actions)
    }

    // MARK: Paused providers

    package func isPaused(_ provider: PushProvider) -> Bool { dispatcher.paused.contains(provider) }

    /// Stops sending pushes to a push provider.
    package mutating func pause(_ provider: PushProvider, now: Moment, into actions: inout some PushOrders) {
        dispatcher.pause(provider, now: now)
        carryOut(now: now, into: &actions)
    }

    package mutating func resume(_ provider: PushProvider) { dispatcher.resume(provider) }

    // MARK: Waking a phone

    /// Sends the push about a call for a branch that waits for its phone (R11). The parameter `old` is the code of the
    /// push, if the push was already ordered before the restart.
    package mutating func wake(
        _ target: ForkTarget, _ token: PushToken, for branch: Int, of call: ProxiedRequest, _ userCall: UserCall,
        _ caller: CallerIdentity, again old: PushCode? = nil, nonce: ByteString? = nil, now: Moment,
        into actions: inout some PushOrders
    ) {
        guard !isPaused(token.provider) else {
            call.saw(.pushPaused)
            return began(
                branch, of: call, userCall, target.id, .providerPaused, app: token.provider.rawValue, now: now)
        }
        guard old != nil || limits.admits(target.id, for: userCall.caller, now: now.instant) else {
            let isOwn = !limits.device.isUsedUp(target.id, now: now.instant)
            if let suppressed = lines.admit(userCall.caller, now: now.instant) {
                log.warning(
                    isOwn
                        ? "a caller has reached its limit of pushes to a phone, so the daemon does not wake the phone for this call"
                        : "a phone has reached its limit of pushes, so the daemon does not wake the phone for this call",
                    [
                        .aor: .described(userCall.aor), .device: .described(target.id),
                        .caller: .bytes(caller.remoteURI), .callID: .bytes(userCall.key.callID),
                        .suppressed: .number(suppressed),
                    ])
            }
            call.saw(.pushLimited)
            return began(
                branch, of: call, userCall, target.id, isOwn ? .callerLimit : .deviceLimit,
                app: token.provider.rawValue,
                now: now)
        }
        let code = old ?? newCode()
        began(
            branch, of: call, userCall, target.id, nil, code, app: token.provider.rawValue,
            since: old == nil ? nil : userCall.receivedAt, now: now)
        let push = begin(
            AskedPush(
                .call(call, branch: branch), code, device: target.id, aor: userCall.aor,
                record: call.fork.branches[branch].record))
        call.fork.pushAsked(branch, push)
        call.saw(.pushAsked)
        let badge = unread.asked(code, .call(userCall.ref), by: target.id, at: now.date)
        send(
            PushRequest(
                id: push, code: code, device: target.id, token: token,
                message: .incomingCall(IncomingCall(userCall, from: caller)), badge: badge,
                deadline: max(userCall.pushDeadline, now.date + Self.shortestCallPush), nonce: nonce), now: now,
            into: &actions)
    }

    /// The minimum lifetime of a push about a call, if the phone's connection was lost while the phone rang.
    private static var shortestCallPush: Duration { .seconds(5) }

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

    package mutating func timePassed(now: Moment, into actions: inout some PushOrders) {
        guard let deadline = dispatcher.nextDeadline, deadline <= now.instant else { return }
        dispatcher.timePassed(now: now)
        carryOut(now: now, into: &actions)
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

/// The rate limits of pushes per minute (T11.2).
package struct PushRates {
    /// The rate limit of pushes for calls to one device.
    package private(set) var device: SharedRate<DeviceID>
    /// The rate limit of pushes to one device for other purposes than calls.
    private var notification: SharedRate<DeviceID>
    /// The rate limit of pushes that one caller causes at all devices together.
    private var caller: RateLimit<Caller>
    /// The rate limit of test pushes to one push token.
    private var testedToken: RateLimit<PushToken>

    package init(_ settings: ProxySettings) {
        device = SharedRate(settings.share(of: settings.call.pushesPerDevice))
        notification = SharedRate(settings.share(of: settings.notificationsPerDevice))
        caller = RateLimit(perMinute: settings.call.pushesPerCaller, capacity: 65_536)
        testedToken = RateLimit(perMinute: settings.notificationsPerDevice, capacity: 1024)
    }

    package mutating func changed(_ settings: ProxySettings) {
        device.changed(settings.share(of: settings.call.pushesPerDevice))
        notification.changed(settings.share(of: settings.notificationsPerDevice))
        caller.limit = settings.call.pushesPerCaller
        testedToken.limit = settings.notificationsPerDevice
    }

    /// Whether the rate limits allow a push to the device for one more call of the caller; an allowed push is counted
    /// (T11.1, T32.1).
    package mutating func admits(_ device: DeviceID, for caller: Caller, now: Instant) -> Bool {
        self.device.admit(
            device, by: caller.number(at: device.rawValue), isTrusted: caller.isTrusted, now: now)
    }

    /// Whether the rate limit allows the caller one more push to any device; an allowed push is counted.
    package mutating func admits(_ caller: Caller, now: Instant) -> Bool { self.caller.admit(caller, now: now) }

    /// Whether the rate limit allows one more test push to the push token; an allowed test push is counted.
    package mutating func admitsTest(of token: PushToken, now: Instant) -> Bool { testedToken.admit(token, now: now) }

    /// Whether the rate limits allow a push to the device, if the push is not about a call.
    ///
    /// Notifications have their own rate limit, and are also refused while calls have used up the rate limit of calls.
    /// Notifications do not count toward the rate limit of calls.
    package func mayNotify(_ device: DeviceID, for caller: Caller?, now: Instant) -> Bool {
        notification.hasRoom(
            for: device, by: caller?.number(at: device.rawValue), isTrusted: caller?.isTrusted ?? true, now: now)
            && !self.device.isUsedUp(device, now: now)
    }

    package mutating func notified(_ device: DeviceID, for caller: Caller?, now: Instant) {
        _ = notification.admit(
            device, by: caller?.number(at: device.rawValue), isTrusted: caller?.isTrusted ?? true, now: now)
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

extension IncomingCall {
    /// Describes a call for the push about the call.
    package init(_ userCall: UserCall, from caller: CallerIdentity) {
        self.init(
            callRef: userCall.ref, callerURI: caller.number, displayName: caller.displayName,
            isAnonymous: caller.isAnonymous, receivedAt: userCall.receivedAt, callID: userCall.key.callID)
    }
}
