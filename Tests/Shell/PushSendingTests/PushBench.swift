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

/// A push service on a loop, and what it reports.
actor PushBench {
    let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    nonisolated let outcomes = Mailbox<(PushID, PushOutcome)>()
    /// Made, used and released on the loop.
    private var service: PushService?
    private var isGivingOrder = false
    private(set) var wasToldInsideOrder = false

    init(_ loop: EventLoop) { self.loop = loop }

    func start(_ settings: PushSettings) throws(PushSetupError) {
        let service = try PushService(loop: loop, settings: settings, log: .silent)
        service.finished = { [weak self] id, outcome in
            self?.assumeIsolated { bench in
                if bench.isGivingOrder { bench.wasToldInsideOrder = true }
                bench.outcomes.put((id, outcome))
            }
        }
        self.service = service
    }

    func keepReady() { service?.start() }

    func send(
        _ number: UInt64, to token: PushToken, _ message: PushMessage = .call, life: Duration = .seconds(30)
    ) {
        isGivingOrder = true
        let now = loop.moment.date
        service?.send(
            PushRequest(
                id: PushID(rawValue: number), code: PushCode(high: number, low: number),
                device: DeviceID(rawValue: number), token: token,
                message: message, badge: 1, deadline: now + life))
        isGivingOrder = false
    }

    func cancel(_ number: UInt64) {
        isGivingOrder = true
        service?.cancel(PushID(rawValue: number))
        isGivingOrder = false
    }

    /// Many in one turn of the loop.
    func send(_ numbers: ClosedRange<UInt64>, to token: PushToken) {
        for number in numbers { send(number, to: token) }
    }

    /// Both in one turn of the loop.
    func sendAndCancel(_ number: UInt64, to token: PushToken) {
        send(number, to: token)
        cancel(number)
    }

    var vapidKey: String? { service?.vapidKey }

    var notificationRoom: Int { service?.notificationRoom ?? 0 }

    /// Many in one turn of the loop.
    func notify(_ numbers: ClosedRange<UInt64>, at token: PushToken) {
        for number in numbers { send(number, to: token, .notification, life: .seconds(60)) }
    }

    var counters: CounterSet { service?.counters ?? CounterSet() }

    /// Of one app.
    func report(_ app: String) -> PushAppReport {
        service?.reports.first { $0.app.name == app }?.report ?? PushAppReport()
    }

    func close() {
        service?.close()
        service = nil
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
