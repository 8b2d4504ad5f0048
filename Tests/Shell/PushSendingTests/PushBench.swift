import Addressing
import Bytes
import Crypto
import LoopTesting
import ProviderTesting
import PushDelivery
import PushSending
import Reactor
import Telemetry
import TestSupport
import Timekeeping

/// A push service on an event loop, and a dispatcher that tells the push service what to send. A mailbox gets the
/// outcomes of the pushes.
actor PushBench {
    let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    nonisolated let outcomes = Mailbox<(PushID, PushOutcome)>()
    /// The push service, which is created, used and released on the loop.
    private var service: PushService?
    private var dispatcher: PushDispatcher?
    private var timer: LoopTimer?
    private var actions: [PushDispatcher.Action] = []
    /// The events that the service has reported and the dispatcher has not received yet.
    private var waiting: [PushDispatcher.Event] = []
    private var isFollowing = false

    init(_ loop: EventLoop) { self.loop = loop }

    func start(_ settings: PushSettings, log: Log = .silent) throws {
        let service = try PushService(loop: loop, settings: settings, log: log)
        service.happened = { [weak self] event in
            self?.assumeIsolated { bench in
                bench.waiting.append(event)
                bench.follow()
            }
        }
        timer = try LoopTimer(on: loop) { [weak self] in self?.assumeIsolated { $0.timePassed() } }
        dispatcher = PushDispatcher(service.setup, log: .silent)
        self.service = service
    }

    /// Changes the settings as a daemon does at SIGHUP.
    func reload(_ settings: PushSettings) {
        service?.reload(settings)
        if let service { dispatcher?.credentialsChanged(service.setup.credentials, now: loop.moment) }
        follow()
    }

    private func timePassed() {
        dispatcher?.timePassed(now: loop.moment)
        follow()
    }

    /// Passes the dispatcher's commands to the push service, and the service's events to the dispatcher.
    private func follow() {
        guard !isFollowing, let dispatcher, let service else { return }
        isFollowing = true
        repeat {
            for event in waiting { dispatcher.happened(event, now: loop.moment) }
            waiting = []
            dispatcher.takeActions(into: &actions)
            for action in actions {
                switch action {
                case .tell: break
                case .send(let transmission): service.send(transmission)
                case .makeCredential(let order): service.make(order)
                }
            }
        } while !waiting.isEmpty
        while let next = dispatcher.nextOutcome() { outcomes.put((next.id, next.outcome)) }
        if let deadline = dispatcher.nextDeadline { timer?.arm(at: deadline) } else { timer?.disarm() }
        isFollowing = false
    }

    func keepReady() {
        service?.start()
        dispatcher?.started(now: loop.moment)
        follow()
    }

    func send(
        _ number: UInt64, to token: PushToken, _ message: PushMessage = .call, life: Duration = .seconds(30)
    ) {
        let now = loop.moment
        dispatcher?.pushAsked(
            PushRequest(
                id: PushID(rawValue: number), code: PushCode(high: number, low: number),
                device: DeviceID(rawValue: number), token: token,
                message: message, badge: 1, deadline: now.date + life), now: now)
        follow()
    }

    func cancel(_ number: UInt64) {
        dispatcher?.cancelled(PushID(rawValue: number), now: loop.moment)
        follow()
    }

    /// Tells the service to send a push for each of the given numbers, all in one turn of the event loop.
    func send(_ numbers: ClosedRange<UInt64>, to token: PushToken) {
        for number in numbers { send(number, to: token) }
    }

    /// Tells the service to send a push and to cancel the push, in one turn of the loop.
    func sendAndCancel(_ number: UInt64, to token: PushToken) {
        send(number, to: token)
        cancel(number)
    }

    var vapidKey: String? { service?.vapidKey }

    var notificationRoom: Int { dispatcher?.notificationRoom ?? 0 }

    /// Sends a notification for each of the given numbers, all in one turn of the event loop.
    func notify(_ numbers: ClosedRange<UInt64>, at token: PushToken) {
        for number in numbers { send(number, to: token, .notification, life: .seconds(60)) }
    }

    var counters: CounterSet { dispatcher?.figures ?? CounterSet() }

    /// The dispatcher's report about the pushes of one app.
    func report(_ app: String) -> PushAppReport {
        dispatcher?.reports.first { $0.app.name == app }?.report ?? PushAppReport()
    }

    func close() {
        service?.close()
        service = nil
        dispatcher = nil
        timer = nil
    }
}

extension PushMessage {
    static var call: PushMessage {
        .incomingCall(
            IncomingCall(
                callRef: CallRef(rawValue: 1), callerURI: ByteString("sip:103@example.net"),
                displayName: ByteString("Anna"), isAnonymous: false, receivedAt: UnixTime(seconds: 1_623_753_691),
                callID: ByteString("a84b4c76e66710")))
    }

    static var notification: PushMessage {
        var notification = PushNotification(expiresAt: UnixTime(seconds: 1_623_753_691))
        notification.text = ByteString("hi")
        return .notification(notification)
    }

    static var missedCall: PushMessage {
        .missedCalls([
            MissedCall(
                remoteURI: ByteString("103"), date: UnixTime(seconds: 1_623_753_691), callRef: CallRef(rawValue: 1))
        ])
    }
}
