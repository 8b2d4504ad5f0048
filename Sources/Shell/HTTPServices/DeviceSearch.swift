import Bytes
import Collections
import ProxyCore
import ProxyRuntime
import PushDelivery
import Reactor
import Registration
import Timekeeping

/// Finds the device that has a certain token. A search goes through all devices in steps, so that calls go on
/// meanwhile. Questions that come during a search wait for the next one, which answers them together.
///
/// - `@unchecked Sendable` because it lives on the shard's loop and is used there alone.
final class DeviceSearch: @unchecked Sendable {
    typealias FoundDevice = ProxyEngine.FoundDevice

    /// Too many questions wait already.
    struct Overload: Error {}

    private struct Question {
        let providers: Set<PushProvider>
        /// A part of the token, which the engine searches contacts for.
        let word: [UInt8]
        /// Whether a token that holds the word is the one that is looked for.
        let isMeant: (PushToken) -> Bool
        let asker: CheckedContinuation<FoundDevice?, Never>
        var found: FoundDevice?
    }

    private let door: ShardDoor
    private let loop: EventLoop
    private var waiting = Queue<Question>()
    /// The questions that the present search is to answer.
    private var asked: [Question] = []

    /// How many questions one search answers.
    private static let batch = 16
    /// How many questions may wait.
    private static let limit = 256
    /// How many tokens a step reads before calls have their turn again, see
    /// ``BindingTable/forEachDevice(of:with:from:limit:_:)``.
    private static let step = 200
    /// The length of the word that contacts are searched for first; shorter ones would be found everywhere.
    private static let wordLengths = 4...32

    init(_ door: ShardDoor, on loop: EventLoop) {
        self.door = door
        self.loop = loop
    }

    /// Looks for the device that has a token; of several, for that which registered last.
    ///
    /// - Parameters:
    ///   - token: as it stands in `pn-prid`, alone or beside others.
    ///   - providers: those whose tokens are searched.
    ///   - isMeant: whether a token that was found is the one that is looked for.
    /// - Returns: the device, if there is one.
    /// - Throws: when too many wait.
    func find(
        _ token: ByteString, of providers: Set<PushProvider>, where isMeant: @escaping (PushToken) -> Bool
    ) async throws(Overload) -> FoundDevice? {
        guard waiting.count < Self.limit else { throw Overload() }
        guard let word = Self.word(in: token), !providers.isEmpty else { return nil }
        return await withCheckedContinuation { asker in
            waiting.append(Question(providers: providers, word: word, isMeant: isMeant, asker: asker))
            if asked.isEmpty { begin() }
        }
    }

    private func begin() {
        while asked.count < Self.batch, let question = waiting.popFirst() { asked.append(question) }
        guard !asked.isEmpty else { return }
        loop.startTask { _ in await self.search() }
    }

    private func search() async {
        var cursor: BindingCursor? = BindingCursor()
        while let start = cursor {
            cursor = await search(from: start)
            // Calls have their turn before the next step.
            await Task.yield()
        }
        let answered = asked
        asked = []
        for question in answered { question.asker.resume(returning: question.found) }
        begin()
    }

    /// Does one step; returns where the next begins, `nil` after the last.
    private func search(from cursor: BindingCursor) async -> BindingCursor? {
        let providers = asked.reduce(into: Set<PushProvider>()) { $0.formUnion($1.providers) }
        let words = asked.map(\.word)
        let step = await door.ask(.everything) { engine, _ in
            engine.devices(of: providers, with: words, from: cursor, limit: Self.step)
        }
        for device in step.found {
            for index in asked.indices where asked[index].providers.contains(device.token.provider) {
                guard asked[index].isMeant(device.token) else { continue }
                if let known = asked[index].found, known.registeredAt > device.registeredAt { continue }
                asked[index].found = device
            }
        }
        return step.next
    }

    /// The word to search for: the end of the token's longest part that a URI holds without escapes. `nil` when that
    /// part is too short.
    private static func word(in token: ByteString) -> [UInt8]? {
        let parts = token.array.split { byte in
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                false
            default: true
            }
        }
        guard let longest = parts.max(by: { $0.count < $1.count }), longest.count >= wordLengths.lowerBound else {
            return nil
        }
        return Array(longest.suffix(wordLengths.upperBound))
    }
}
