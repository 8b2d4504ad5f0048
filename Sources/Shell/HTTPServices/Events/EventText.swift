import Addressing
import Bytes
import Calling
import JSON
import Persistence
import ProxyCore
import PushDelivery
import Registration
import ServiceEvents
import Timekeeping

/// Writes events as CloudEvents 1.0 in JSON. No event contains a push token or another secret.
struct EventText {
    /// The value of the member `source` of each event.
    let source: String

    /// The maximum number of characters of a text from a phone or caller in an event.
    private static let longestText = 256

    func json(_ event: ServiceEvent, id: UInt64) -> [UInt8] {
        let type = EventType(of: event)
        switch event {
        case .callHeld(let call, let wait):
            return json(type, id, call.date, call.aor, Self.members(of: call) + Self.members(of: wait))
        case .callWoken(let call, let device, let after):
            return json(
                type, id, call.date, call.aor,
                Self.members(of: call) + [("device", Self.device(device)), ("afterMs", Self.milliseconds(after))])
        case .callEnded(let report, let caller):
            return json(type, id, report.endedAt, report.aor, Self.members(of: report, caller))
        case .deviceRegistered(let device, let aor, let isPush, let date):
            return json(type, id, date, aor, [("device", Self.device(device)), ("push", .bool(isPush))])
        case .deviceRemoved(let device, let aor, let removal, let date):
            return json(type, id, date, aor, [("device", Self.device(device))] + Self.members(of: removal))
        case .push(let change, let date): return json(type, id, date, nil, Self.members(of: change))
        }
    }

    /// The event that tells the receiver of lost events.
    func json(_ loss: EventLoss, id: UInt64, at date: UnixTime) -> [UInt8] {
        var members: [(String, JSONValue)] = [
            ("reason", .string(loss.reason.rawValue)), ("count", .number(Int64(loss.count))),
        ]
        if let range = loss.range {
            members += [
                ("firstId", .string("\(range.lowerBound)")), ("lastId", .string("\(range.upperBound)")),
            ]
        }
        return json(.eventsDropped, id, date, nil, members)
    }

    private func json(
        _ type: EventType, _ id: UInt64, _ date: UnixTime, _ aor: AddressOfRecord?, _ data: [(String, JSONValue)]
    ) -> [UInt8] {
        var members: [(String, JSONValue)] = [
            ("specversion", "1.0"), ("id", .string("\(id)")), ("source", .string(source)),
            ("type", .string("sippushd." + type.rawValue)), ("time", .string(Self.text(date))),
        ]
        if let aor { members.append(("subject", .string(Self.cut("\(aor)")))) }
        members.append(("datacontenttype", "application/json"))
        members.append(("data", .members(data)))
        return JSONValue.members(members).bytes
    }

    // MARK: Members

    private static func members(of call: EventCall) -> [(String, JSONValue)] {
        members(call.callID, call.ref, call.caller)
    }

    private static func members(
        _ callID: ByteString, _ ref: CallRef, _ caller: ByteString?
    ) -> [(String, JSONValue)] {
        var members: [(String, JSONValue)] = [("callId", .string(cut(callID.string))), ("callRef", .string("\(ref)"))]
        if let caller { members.append(("caller", .string(cut(caller.string)))) }
        return members
    }

    private static func members(of wait: EventWait) -> [(String, JSONValue)] {
        [
            ("devices", .array(wait.devices.prefix(32).map(device))), ("until", .string(text(wait.until))),
            ("again", .bool(wait.isAgain)),
        ]
    }

    private static func members(of report: EndedCallReport, _ caller: ByteString?) -> [(String, JSONValue)] {
        var members = members(report.callID, report.ref, caller)
        members += [
            ("receivedAt", .string(text(report.receivedAt))), ("status", .number(Int64(report.status))),
            ("outcome", .string(outcome(of: report.code.end))), ("code", .string("\(report.code)")),
            ("offeredTo", .number(Int64(report.count))),
            ("afterMs", milliseconds(report.endedAt - report.receivedAt)),
        ]
        if let device = report.device, device != .nobody { members.append(("device", Self.device(device))) }
        return members
    }

    private static func outcome(of end: CallCode.End) -> String {
        switch end {
        case .answered: "answered"
        case .answeredElsewhere: "answered-elsewhere"
        case .callerGaveUp: "caller-gave-up"
        case .refused: "refused"
        case .noAnswer: "no-answer"
        case .unreachable: "unreachable"
        case .timeOver: "no-phone-came"
        case .pushFailed: "push-failed"
        case .phonesGone: "phones-gone"
        case .forwarded: "forwarded"
        case .redirected: "redirected"
        case .endedByOperator: "dismissed"
        case .denied: "denied"
        case .notDisturbed: "do-not-disturb"
        }
    }

    private static func members(of removal: DeviceRemoval) -> [(String, JSONValue)] {
        switch removal {
        case .signedOut: [("reason", "signed-out")]
        case .replaced(let other): [("reason", "replaced"), ("replacedBy", device(other))]
        case .ordered: [("reason", "ordered")]
        case .expired: [("reason", "expired")]
        case .tokenDead: [("reason", "token-dead")]
        case .providerOff: [("reason", "provider-off")]
        }
    }

    private static func members(of change: PushAppChange) -> [(String, JSONValue)] {
        switch change {
        case .credentialsRefused(let app, let reason), .breakerOpened(let app, let reason):
            [("app", .string(app)), ("reason", .string(cut(reason)))]
        case .credentialsAccepted(let app), .breakerClosed(let app): [("app", .string(app))]
        }
    }

    /// A device as the admin API shows it. The number is a text, because some JSON readers cannot read a number above
    /// 2^53 exactly.
    private static func device(_ device: DeviceID) -> JSONValue {
        ["id": .string("\(device.rawValue)"), "name": .string(device.name)]
    }

    // MARK: Values

    private static func milliseconds(_ duration: Duration) -> JSONValue { .number(duration.nanoseconds / 1_000_000) }

    /// A time in the form of RFC 3339, with milliseconds.
    static func text(_ date: UnixTime) -> String {
        let civil = date.civil
        let milliseconds = date.milliseconds - date.seconds * 1000
        let digits = "\(milliseconds)"
        return "\(civil.dayText)T\(civil.timeText).\(String(repeating: "0", count: 3 - digits.utf8.count))\(digits)Z"
    }

    /// Shortens a text that a phone or caller wrote, so that one event stays small.
    private static func cut(_ text: String) -> String {
        // A character of Swift can have any number of scalars, so scalars are counted.
        guard text.unicodeScalars.count > longestText else { return text }
        return String(String.UnicodeScalarView(text.unicodeScalars.prefix(longestText - 1))) + "…"
    }
}

extension EventOwner {
    /// The user or push app whose share of the event log an event uses.
    init(of event: ServiceEvent) {
        switch event {
        case .callHeld(let call, _), .callWoken(let call, _, _): self.init(call.aor)
        case .callEnded(let report, _): self.init(report.aor)
        case .deviceRegistered(_, let aor, _, _), .deviceRemoved(_, let aor, _, _): self.init(aor)
        case .push(let change, _): self.init(user: Self.hash(ByteString(change.app)), domain: 0)
        }
    }

    private init(_ aor: AddressOfRecord) {
        var hash = FNV1a()
        hash.mix(aor.user)
        hash.mix(aor.host)
        self.init(user: hash.value, domain: Self.hash(aor.host))
    }

    private static func hash(_ text: ByteString) -> UInt64 {
        var hash = FNV1a()
        hash.mix(text)
        return hash.value
    }
}
