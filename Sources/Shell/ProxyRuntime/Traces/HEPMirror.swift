import Addressing
import Bytes
import Crypto
import HEP
package import Reactor
import Settings
package import Telemetry

/// Sends a copy of each selected message, and of the steps of pushes, to a HEP collector. All secrets in a message are
/// masked before the copy becomes a packet.
package final class HEPMirror {
    private let settings: HEPSettings
    private let agent: HEPPacket.Agent
    private let mask: SecretMask
    private let sender: HEPSender
    private var selection: TraceSelection
    private var cut = CounterSet()

    /// Creates the mirror; `nil` if the settings name no collector.
    package init?(_ settings: HEPSettings, on loop: EventLoop, log: Log) throws(StartError) {
        guard let collector = settings.collector else { return nil }
        self.settings = settings
        let node = settings.node ?? HostAddress.name
        do {
            agent = HEPPacket.Agent(
                id: settings.id == 0 ? Self.id(of: node) : settings.id, name: Array(node.utf8),
                password: try settings.password())
            sender = try HEPSender(to: collector, authority: settings.caFile.map { .file($0) }, on: loop, log: log)
        } catch {
            throw StartError("hep: \(error)")
        }
        mask = SecretMask(keepsBodies: settings.messageBodies)
        selection = TraceSelection(users: settings.users, sample: settings.sample)
    }

    /// A number for a node without a number in the settings: not 0, and without the highest bit, which some collectors
    /// read as a sign.
    private static func id(of node: String) -> UInt32 {
        var hash = FNV1a()
        hash.mix(ByteString(node))
        return max(1, UInt32(truncatingIfNeeded: hash.value) & 0x7fff_ffff)
    }

    package func start() { sender.start() }

    package func close() { sender.close() }

    /// The size in bytes of the packets that wait for the HEP collector.
    var waitingBytes: Int { sender.waitingBytes }

    /// The metrics of the HEP mirror.
    package var figures: CounterSet {
        var figures = sender.figures
        figures.merge(cut)
        return figures
    }

    func copy(_ bytes: Span<UInt8>, _ outline: SIPOutline, _ message: TracedMessage) {
        if !settings.registrations, outline.isOf("REGISTER", bytes) { return }
        guard selection.wants(bytes, outline) else { return }
        var masked: [UInt8] = []
        masked.reserveCapacity(bytes.count)
        masked.append(bytes)
        mask.apply(to: &masked, outline)
        send(
            HEPPacket(
                .sip, from: message.source, to: message.target, isDatagram: message.transport == .udp,
                time: message.time), masked)
    }

    func copy(_ step: TracedStep, from own: Endpoint) {
        let provider = Endpoint(own.address.isV4 ? .anyV4 : IPAddress(high: 0, low: 0), 443)
        send(
            HEPPacket(
                .log, from: own, to: provider, isDatagram: false, time: step.time, correlation: step.callID), step.json)
    }

    /// Whether the mirror copies the steps of pushes for the given call.
    func wantsSteps(of callID: ByteString, user: ByteString = .empty, host: ByteString = .empty) -> Bool {
        // HEP collectors find log lines of a call only by the Call-ID.
        settings.pushes && !callID.isEmpty && selection.wants(callID: callID, user: user, host: host)
    }

    private func send(_ packet: HEPPacket, _ payload: [UInt8]) {
        let limit = sender.isDatagram ? HEPPacket.longestDatagram : HEPPacket.longest
        let (bytes, isCut) = packet.bytes(payload: payload.span, from: agent, limit: limit)
        if isCut { cut.count(.hepCut) }
        sender.send(bytes)
    }
}
