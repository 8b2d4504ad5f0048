import Addressing
import Bytes
import Collections
import SIPTransactions
import Timekeeping

/// A call that is over, for phones that were woken for it and have not come.
final class EndedCall {
    let offer: Offer
    /// The INVITE's bytes.
    let request: KeptRequest
    let source: Flow
    let until: Instant
    /// The devices, with the Reason values of the CANCEL that each of them gets.
    let reasons: [DeviceID: [ByteString]]
    /// Transactions that phones may ring by although their connections have ended; these are told by CANCEL alone.
    let rings: [DeviceID: [ClientTransactionID]]

    init(
        offer: Offer, request: KeptRequest, source: Flow, until: Instant, reasons: [DeviceID: [ByteString]],
        rings: [DeviceID: [ClientTransactionID]]
    ) {
        self.rings = rings
        self.offer = offer
        self.request = request
        self.source = source
        self.until = until
        self.reasons = reasons
    }
}

/// The calls that are over, each kept for a minute.
struct EndedCalls: ~Copyable {
    private var calls = Queue<EndedCall>()
    private var byDevice: [DeviceID: [EndedCall]] = [:]
    /// Bytes of their requests.
    private(set) var bytes = 0

    var isEmpty: Bool { calls.isEmpty }
    var nextEnd: Instant? { calls.first?.until }

    mutating func append(_ call: EndedCall) {
        calls.append(call)
        bytes += call.request.count
        for device in call.reasons.keys { byDevice[device, default: []].append(call) }
    }

    /// Takes the calls that the device has not heard of, since it is told of them now.
    mutating func take(for device: DeviceID) -> [EndedCall] { byDevice.removeValue(forKey: device) ?? [] }

    /// Forgets the oldest.
    ///
    /// - Returns: the devices that wait for no other call; `nil` when there was no call to forget.
    mutating func dropOldest() -> [DeviceID]? {
        guard let oldest = calls.popFirst() else { return nil }
        bytes -= oldest.request.count
        var idle: [DeviceID] = []
        for device in oldest.reasons.keys {
            guard var others = byDevice[device] else { continue }
            others.removeAll { $0 === oldest }
            byDevice[device] = others.isEmpty ? nil : others
            if others.isEmpty { idle.append(device) }
        }
        return idle
    }
}
