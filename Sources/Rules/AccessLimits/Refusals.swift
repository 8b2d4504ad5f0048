package import Addressing
package import Bytes
import Collections
package import PushDelivery
package import Registration
package import SIPGrammar
import Telemetry
package import Timekeeping

/// Limits log lines and timeline records about refused requests, so that one sender cannot fill the log or hide other
/// senders' refusals.
///
/// ``Refusals`` also remembers calls whose senders were challenged a moment ago. If a challenged sender does not
/// authenticate in time, the call is reported, because the sender may be a PBX that is missing in the setting
/// `trusted`.
package struct Refusals {
    private var challenged = LogRateLimit()
    private var unanswerable = LogRateLimit()
    private var strayed = LogRateLimit()
    /// How a refusal is reported: by a log line, a timeline record, both, or not at all.
    package struct Telling: Equatable {
        /// The number of suppressed log lines before the line about the refusal; `nil` if the line is suppressed too.
        package let suppressed: Int?
        package let isRecorded: Bool
    }

    private var lines = Dictionary(uniqueKeysWithValues: RefusalShare.allCases.map { ($0, Lines($0)) })
    private var records = Dictionary(uniqueKeysWithValues: RefusalShare.allCases.map { ($0, Records($0)) })

    private var asked: [AskedSender: Asked] = [:]
    /// The senders of ``asked`` calls in the order of their deadlines, including senders that have authenticated since.
    private var due = Queue<(sender: AskedSender, at: Instant)>()
    private var askedPerSource = RateLimit<IPAddress>(perMinute: 20, capacity: 1024)

    /// How long a challenged sender has to authenticate before the call is treated as refused.
    package static let patience: Duration = .seconds(3)
    /// The maximum number of challenged calls that are kept until their senders authenticate.
    package static let capacity = 512

    // MARK: Reports of refusals

    /// Decides whether the log gets a line about a challenged REGISTER. The result is the number of lines suppressed
    /// before this line; `nil` if this line is suppressed too.
    package mutating func challenged(now: Instant) -> Int? { challenged.admit(now: now) }

    /// Decides whether the log gets a line about a peer that challenges in the daemon's own realm. The result is the
    /// number of lines suppressed before this line; `nil` if this line is suppressed too.
    package mutating func challengedUnanswerably(now: Instant) -> Int? { unanswerable.admit(now: now) }

    /// Decides whether the log gets a line about a response from a wrong address. The result is the number of lines
    /// suppressed before this line; `nil` if this line is suppressed too.
    package mutating func strayed(now: Instant) -> Int? { strayed.admit(now: now) }

    /// Counts a refused request, and decides how the refusal is reported.
    package mutating func refused(_ share: RefusalShare, at source: IPAddress, now: Instant) -> Telling {
        let suppressed = lines[share]?.admit(source.source, now: now)
        return Telling(
            suppressed: suppressed ?? nil, isRecorded: records[share]?.admit(source.source, now: now) ?? false)
    }

    /// Limits the log lines about one kind of sender: trusted peers, users, or strangers.
    private struct Lines {
        private var perSource: RateLimit<IPAddress>
        private var all: LogRateLimit
        private var ofSources = 0

        init(_ share: RefusalShare) {
            perSource = RateLimit(perMinute: share == .trusted ? 60 : 6, capacity: 1024)
            all = LogRateLimit(burst: 10)
        }

        mutating func admit(_ source: IPAddress, now: Instant) -> Int? {
            guard perSource.wait(for: source, now: now) == nil else {
                ofSources &+= 1
                return nil
            }
            guard let suppressed = all.admit(now: now) else { return nil }
            _ = perSource.admit(source, now: now)
            defer { ofSources = 0 }
            return suppressed &+ ofSources
        }
    }

    /// Limits the timeline records about one kind of sender: trusted peers, users, or strangers.
    private struct Records {
        private var perSource: RateLimit<IPAddress>
        private var all: RateLimit<Bool>

        init(_ share: RefusalShare) {
            perSource = RateLimit(perMinute: share == .trusted ? 600 : 20, capacity: 1024)
            all = RateLimit(perMinute: share == .stranger ? 120 : 600)
        }

        mutating func admit(_ source: IPAddress, now: Instant) -> Bool {
            perSource.wait(for: source, now: now) == nil && all.admit(true, now: now)
                && perSource.admit(source, now: now)
        }
    }

    // MARK: Who was asked for a password

    /// A call whose sender was challenged for a password.
    package struct Asked {
        package let call: RefusedCall
        package let source: Endpoint
    }

    private struct AskedSender: Hashable {
        let callID: ByteString
        let source: IPAddress
    }

    /// Remembers a call without password whose sender was challenged.
    ///
    /// - Returns: the instant at which ``silent(now:)`` must be called; `nil` if the same time is already scheduled, or
    ///   the call is not kept.
    package mutating func asked(_ call: () -> RefusedCall, callID: ByteString, at source: Endpoint, now: Instant)
        -> Instant?
    {
        let sender = AskedSender(callID: callID, source: source.address)
        guard asked.count < Self.capacity, due.count < 2 * Self.capacity, asked[sender] == nil,
            askedPerSource.admit(source.address.source, now: now)
        else { return nil }
        let call = call()
        let kept = AskedSender(callID: call.callID, source: source.address)
        asked[kept] = Asked(call: call, source: source)
        let isFirst = due.isEmpty
        due.append((kept, now + Self.patience))
        return isFirst ? now + Self.patience : nil
    }

    /// Removes a call whose sender has answered the challenge with a password, right or wrong.
    package mutating func answered(callID: ByteString, at source: IPAddress) {
        guard !asked.isEmpty else { return }
        asked[AskedSender(callID: callID, source: source)] = nil
    }

    /// Removes and returns the calls whose senders did not authenticate in time, and returns the next deadline.
    package mutating func silent(now: Instant) -> (calls: [Asked], next: Instant?) {
        var calls: [Asked] = []
        while let first = due.first, first.at <= now {
            _ = due.popFirst()
            if let call = asked.removeValue(forKey: first.sender) { calls.append(call) }
        }
        return (calls, due.first?.at)
    }
}

/// The data of a refused call for the timeline record and the log line.
package struct RefusedCall {
    package let callee: AddressOfRecord
    package let caller: ByteString
    package let callID: ByteString

    package init(callee: AddressOfRecord, caller: ByteString, callID: ByteString) {
        self.callee = callee
        self.caller = caller
        self.callID = callID
    }

    /// Reads the data from a request. The parameter `known` is the callee, if the Request-URI does not name the callee.
    package init(_ request: SIPRequest, to known: AddressOfRecord? = nil) {
        let uri = request.uri
        callee =
            (known ?? AddressOfRecord(user: uri.user?.percentDecoded() ?? .empty, host: uri.host.lowercased()))
            .shortened()
        caller =
            AddressOfRecord(request.from.uri).map { ByteString("sip:\($0)") }?.shortened()
            ?? request.from.uri.text.shortened()
        callID = request.callID.shortened()
    }

    /// The maximum length in bytes of each value; longer values are cut off.
    package static let longest = 255
}

extension RefusedCall {
    /// Reads the data of a malformed INVITE. The closure `known` finds the callee by the Request-URI. If the closure
    /// returns `nil`, the callee is the user part of the Request-URI.
    package init(malformed frame: MessageFrame, callee known: (SIPURI) -> AddressOfRecord? = { _ in nil }) {
        let words = frame.bytes[0..<min(frame.headersStart, frame.bytes.count)].split(at: [UInt8(ascii: " ")])
        let uri = words.count > 1 ? SIPURI(words[1]) : nil
        callee =
            (uri.flatMap(known)
            ?? AddressOfRecord(user: uri?.user?.percentDecoded() ?? .empty, host: uri?.host.lowercased() ?? .empty))
            .shortened()
        let from = frame.firstValue(of: .from) ?? .empty
        caller =
            NameAddress(from).flatMap { AddressOfRecord($0.uri) }.map { ByteString("sip:\($0)").shortened() }
            ?? from.shortened()
        callID = (frame.firstValue(of: .callID) ?? .empty).shortened()
    }
}

extension AddressOfRecord {
    fileprivate func shortened() -> AddressOfRecord {
        AddressOfRecord(user: user.shortened(), host: host.shortened())
    }
}

extension ByteString {
    fileprivate func shortened() -> ByteString { self[0..<min(count, RefusedCall.longest)].compacted() }
}
