import Addressing
import Bytes
import Collections
import PushDelivery
import Registration
import Telemetry
import Timekeeping

/// What is told of requests that are refused: few lines of the log and few records, so that whoever causes refusals by the
/// thousand fills nothing, and hides nothing of what befalls others.
///
/// It also knows the calls whose senders were asked for a password a moment ago. One that shows none is refused: perhaps it is
/// a PBX that nobody has listed under `trusted`.
struct Refusals {
    /// Lines about REGISTERs that were asked for a password.
    var challenged = LogRateLimit()
    /// Lines about challenges in realms of ours.
    var unanswerable = LogRateLimit()
    /// Lines about responses from elsewhere than their requests went.
    var strayed = LogRateLimit()
    /// What may be told of one refusal.
    struct Telling: Equatable {
        /// How many lines were left out before; `nil` when there is to be no line.
        let suppressed: Int?
        let isRecorded: Bool
    }

    private var lines = Dictionary(uniqueKeysWithValues: RefusalShare.allCases.map { ($0, Lines($0)) })
    private var records = Dictionary(uniqueKeysWithValues: RefusalShare.allCases.map { ($0, Records($0)) })

    private var asked: [AskedSender: Asked] = [:]
    /// The same in their order. Some have left `asked` since.
    private var due = Queue<(sender: AskedSender, at: Instant)>()
    private var askedPerSource = RateLimit<IPAddress>(perMinute: 20, capacity: 1024)

    /// How long the sender of a call has to show a password before we say that none came.
    static let patience: Duration = .seconds(3)
    /// How many calls may be waited for at a time.
    static let capacity = 512

    // MARK: What is told

    /// A request was refused.
    mutating func refused(_ share: RefusalShare, at source: IPAddress, now: Instant) -> Telling {
        let suppressed = lines[share]?.admit(source.source, now: now)
        return Telling(
            suppressed: suppressed ?? nil, isRecorded: records[share]?.admit(source.source, now: now) ?? false)
    }

    /// The lines of one share.
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

    /// The records of one share.
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

    /// A call whose sender was asked.
    struct Asked {
        let call: RefusedCall
        let source: Endpoint
    }

    private struct AskedSender: Hashable {
        let callID: ByteString
        let source: IPAddress
    }

    /// The sender of a call was asked for a password, and had shown none.
    ///
    /// - Returns: when ``silent(now:)`` is to be called, if nobody else is waited for.
    mutating func asked(_ call: () -> RefusedCall, callID: ByteString, at source: Endpoint, now: Instant) -> Instant? {
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

    /// The sender of a call has shown a password, right or wrong.
    mutating func answered(callID: ByteString, at source: IPAddress) {
        guard !asked.isEmpty else { return }
        asked[AskedSender(callID: callID, source: source)] = nil
    }

    /// Takes those who have shown none in time.
    ///
    /// - Returns: them, and when the next is due.
    mutating func silent(now: Instant) -> (calls: [Asked], next: Instant?) {
        var calls: [Asked] = []
        while let first = due.first, first.at <= now {
            _ = due.popFirst()
            if let call = asked.removeValue(forKey: first.sender) { calls.append(call) }
        }
        return (calls, due.first?.at)
    }
}

/// What a record says of a call that was refused. It keeps nothing else of the message in memory.
struct RefusedCall {
    let callee: AddressOfRecord
    let caller: ByteString
    let callID: ByteString

    /// Longer names and numbers are of no use to anybody.
    static let longest = 255
}
