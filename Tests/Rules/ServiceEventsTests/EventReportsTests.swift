import Addressing
import Bytes
import Calling
import PushDelivery
import Registration
import ServiceEvents
import Testing
import Timekeeping

/// Collects events as orders.
private struct Receiver: EventOrders {
    var events: [ServiceEvent] = []

    mutating func tell(_ event: ServiceEvent) { events.append(event) }
}

@Suite("Reports of events")
struct EventReportsTests {
    private static let aor = AddressOfRecord(user: ByteString("bob"), host: ByteString("example.com"))
    private static let device = DeviceID(rawValue: 7)
    private static let now = Moment(instant: .distantPast + .seconds(60), date: UnixTime(seconds: 1_700_000_000))
    private static let changes = [
        PushAppChange.breakerOpened(app: "apns", reason: "timeout"), .breakerClosed(app: "apns"),
    ]

    private static let end = EndedCallReport(
        ref: CallRef(rawValue: 3), callID: ByteString("call1"), aor: aor, receivedAt: now.date, began: now.instant,
        ended: now.instant, endedAt: now.date, code: CallCode(.held, .none, .nobody, .unreachable), status: 480,
        device: nil, count: 1)

    /// Reports one event of each kind that needs no call in progress, and returns the events.
    private static func reported(by reports: EventReports) -> [ServiceEvent] {
        let bindings = BindingTable(enabled: ProviderSet([.apns]))
        var receiver = Receiver()
        reports.ended(end, from: ByteString("alice"), into: &receiver)
        reports.added([.added(device, isPush: true), .retransmission], of: aor, bindings, now: now, into: &receiver)
        reports.removed(device, of: aor, .tokenDead, now: now, into: &receiver)
        reports.push(changes, now: now, into: &receiver)
        return receiver.events
    }

    @Test func `events come in the order in which they were reported`() {
        var reports = EventReports()
        reports.isOn = true
        let words = Self.reported(by: reports).map { event in
            switch event {
            case .callHeld: "held"
            case .callWoken: "woken"
            case .callEnded(let report, let caller): "ended \(report.status) \(caller?.string ?? "-")"
            case .deviceRegistered(let device, let aor, let isPush, _): "registered \(device.rawValue) \(aor) \(isPush)"
            case .deviceRemoved(let device, _, let reason, let date):
                "removed \(device.rawValue) \(reason) \(date == Self.now.date)"
            case .push(let change, _): "\(change.app)"
            }
        }
        #expect(words.first == "ended 480 alice")
        #expect(words.suffix(3) == ["removed 7 tokenDead true", "apns", "apns"])
    }

    @Test func `nothing is reported, and no caller is read, while nobody wants events`() {
        let reports = EventReports()
        #expect(Self.reported(by: reports).isEmpty)
        var receiver = Receiver()
        var wasRead = false
        func caller() -> ByteString? {
            wasRead = true
            return nil
        }
        reports.ended(Self.end, from: caller(), into: &receiver)
        #expect(!wasRead)
    }
}
