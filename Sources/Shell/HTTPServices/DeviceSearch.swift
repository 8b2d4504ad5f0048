import Bytes
import Collections
import ProxyCore
import ProxyRuntime
import PushDelivery
import Reactor
import Registration
import Routing
import Timekeeping

/// Finds the device with a certain push token. A search reads all devices in steps, between which the loop serves
/// calls. Queries that come during a search wait for the next search, which answers them together.
///
/// - The class is `@unchecked Sendable`, because only the shard's event loop uses the search.
final class DeviceSearch: @unchecked Sendable {
    typealias FoundDevice = ProxyEngine.FoundDevice

    /// The error that reports that the limit of waiting queries is reached.
    struct Overload: Error {}

    private struct Question {
        let providers: Set<PushProvider>
        /// A part of the wanted push token, for which the contacts are searched first.
        let word: [UInt8]
        /// Whether a found device, whose push token contains the word, is the wanted device.
        let isMeant: (FoundDevice) -> Bool
        let asker: CheckedContinuation<FoundDevice?, Never>
        var found: FoundDevice?
    }

    private let door: ShardDoor
    private let loop: EventLoop
    private var waiting = Queue<Question>()
    /// The queries that the current search answers.
    private var asked: [Question] = []

    /// The maximum number of queries that one search answers.
    private static let batch = 16
    /// The maximum number of queries that wait for a search.
    private static let limit = 256
    /// The number of tokens that one step reads before the loop serves calls (see
    /// ``BindingTable/forEachDevice(of:with:from:limit:_:)``).
    private static let step = 200
    /// The permitted lengths of `word`; a part of fewer than four bytes would occur in most contacts.
    private static let wordLengths = 4...32

    init(_ door: ShardDoor, on loop: EventLoop) {
        self.door = door
        self.loop = loop
    }

    /// Finds the device with a token; if several devices have the token, the device that registered last.
    ///
    /// - Parameters:
    ///   - token: a token as in `pn-prid`, alone or with other tokens.
    ///   - providers: the providers whose tokens are searched.
    ///   - isMeant: whether a found device is the wanted device.
    /// - Returns: the device; `nil` if no device has the token.
    /// - Throws: an error if too many queries wait.
    func find(
        _ token: ByteString, of providers: Set<PushProvider>, where isMeant: @escaping (FoundDevice) -> Bool
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
            // The loop handles calls before the next step.
            await Task.yield()
        }
        let answered = asked
        asked = []
        for question in answered { question.asker.resume(returning: question.found) }
        begin()
    }

    /// Searches some of the devices, from `cursor` on, and returns the cursor of the next step; `nil` after the last
    /// step.
    private func search(from cursor: BindingCursor) async -> BindingCursor? {
        let providers = asked.reduce(into: Set<PushProvider>()) { $0.formUnion($1.providers) }
        let words = asked.map(\.word)
        let step = await door.ask(.everything) { engine, _ in
            engine.devices(of: providers, with: words, from: cursor, limit: Self.step)
        }
        for device in step.found {
            for index in asked.indices where asked[index].providers.contains(device.token.provider) {
                guard asked[index].isMeant(device) else { continue }
                if let known = asked[index].found, known.registeredAt > device.registeredAt { continue }
                asked[index].found = device
            }
        }
        return step.next
    }

    /// The part of a token to search for: the end of the longest part without URI escapes; `nil` if that part is too
    /// short.
    private static func word(in token: ByteString) -> [UInt8]? {
        let parts = token.array.split { !$0.isNameByte }
        guard let longest = parts.max(by: { $0.count < $1.count }), longest.count >= wordLengths.lowerBound else {
            return nil
        }
        return Array(longest.suffix(wordLengths.upperBound))
    }
}
