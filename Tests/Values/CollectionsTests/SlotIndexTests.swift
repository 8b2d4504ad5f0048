import Collections
import TestSupport
import Testing

@Suite("Index of slots")
struct SlotIndexTests {
    /// Hashes whose search begins at the first entry of the table, at the last entry, or between them.
    private static let hashes: [UInt32] = [0, 1, 2, .max, .max - 1, 0x8000_0000, 0x1234_5678, 77, 77 << 20]

    @Test func `it behaves like a dictionary, also if hashes collide`() {
        var generator = SeededGenerator()
        var index = SlotIndex()
        var model: [UInt32: UInt32] = [:]
        for step in 0..<5000 as Range<UInt32> {
            let slot = UInt32.random(in: 0..<300, using: &generator)
            switch model[slot] {
            case let hash? where step % 5 == 0:
                // The test gives the entry another slot number, and later its old number again.
                index.replace(hash: hash, slot: slot, with: 1000 + slot)
                #expect(index.find(hash: hash) { $0 == slot } == nil)
                index.replace(hash: hash, slot: 1000 + slot, with: slot)
            case let hash?:
                index.remove(hash: hash, slot: slot)
                model[slot] = nil
            case nil:
                let hash = Self.hashes.randomElement(using: &generator) ?? 0
                index.insert(hash: hash, slot: slot)
                model[slot] = hash
            }
            #expect(index.count == model.count)
            if step % 100 == 0 { expect(index, toHold: model) }
        }
        expect(index, toHold: model)
    }

    private func expect(_ index: SlotIndex, toHold model: [UInt32: UInt32]) {
        for hash in Self.hashes {
            let slots = Set(model.filter { $0.value == hash }.keys)
            #expect(Set(index.slots(hash: hash)) == slots)
            #expect(slots.allSatisfy { slot in index.find(hash: hash) { $0 == slot } == slot })
        }
    }

    @Test func `an unknown key is neither found, removed nor replaced`() {
        var index = SlotIndex()
        index.insert(hash: 5, slot: 1)
        index.remove(hash: 5, slot: 2)
        index.remove(hash: 6, slot: 1)
        index.replace(hash: 6, slot: 1, with: 3)
        #expect(index.count == 1)
        #expect(index.slots(hash: 5) == [1])
        #expect(index.find(hash: 6) { _ in true } == nil)
    }

    @Test func `the greatest slot is found among thousands`() {
        var index = SlotIndex()
        let greatest = UInt32.max - 1
        for slot in 0..<5000 as Range<UInt32> { index.insert(hash: slot &* 0x9e37_79b9, slot: slot) }
        index.insert(hash: .max, slot: greatest)
        #expect(index.find(hash: .max) { $0 == greatest } == greatest)
        #expect(index.find(hash: 4999 &* 0x9e37_79b9) { $0 == 4999 } == 4999)
    }
}
