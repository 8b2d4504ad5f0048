import Timekeeping

/// The deadlines of ordinary bindings, soonest first: a binary heap that knows where each slot's entry stands.
///
/// A binding that is refreshed keeps its old entry; when that comes up, the table puts in the new deadline.
struct ExpiryQueue {
    private struct Entry {
        let deadline: Instant
        let slot: UInt32
    }

    private var heap: [Entry] = []
    /// By slot: the place in the heap, or ``absent``.
    private var places: [UInt32] = []
    private static let absent = UInt32.max

    var count: Int { heap.count }
    var first: (deadline: Instant, slot: UInt32)? { heap.first.map { ($0.deadline, $0.slot) } }

    func contains(_ slot: UInt32) -> Bool { Int(slot) < places.count && places[Int(slot)] != Self.absent }

    /// Puts the slot in or, when it is in, moves its entry to the new deadline.
    mutating func schedule(_ slot: UInt32, at deadline: Instant) {
        while places.count <= Int(slot) { places.append(Self.absent) }
        let entry = Entry(deadline: deadline, slot: slot)
        if contains(slot) {
            let place = Int(places[Int(slot)])
            set(entry, at: place)
            siftUp(place)
            siftDown(Int(places[Int(slot)]))
        } else {
            heap.append(entry)
            places[Int(slot)] = UInt32(truncatingIfNeeded: heap.count - 1)
            siftUp(heap.count - 1)
        }
    }

    /// Makes sure that the slot comes up at `deadline` or earlier.
    mutating func scheduleNoLater(_ slot: UInt32, than deadline: Instant) {
        if contains(slot), heap[Int(places[Int(slot)])].deadline <= deadline { return }
        schedule(slot, at: deadline)
    }

    mutating func remove(_ slot: UInt32) {
        guard contains(slot) else { return }
        let place = Int(places[Int(slot)])
        places[Int(slot)] = Self.absent
        let last = heap.removeLast()
        guard place < heap.count else { return }
        set(last, at: place)
        siftUp(place)
        siftDown(Int(places[Int(last.slot)]))
    }

    private mutating func set(_ entry: Entry, at place: Int) {
        heap[place] = entry
        places[Int(entry.slot)] = UInt32(truncatingIfNeeded: place)
    }

    private mutating func siftUp(_ start: Int) {
        var place = start
        let entry = heap[place]
        while place > 0 {
            let parent = (place - 1) / 2
            guard entry.deadline < heap[parent].deadline else { break }
            set(heap[parent], at: place)
            place = parent
        }
        set(entry, at: place)
    }

    private mutating func siftDown(_ start: Int) {
        var place = start
        let entry = heap[place]
        while true {
            var child = 2 * place + 1
            guard child < heap.count else { break }
            if child + 1 < heap.count, heap[child + 1].deadline < heap[child].deadline { child += 1 }
            guard heap[child].deadline < entry.deadline else { break }
            set(heap[child], at: place)
            place = child
        }
        set(entry, at: place)
    }
}
