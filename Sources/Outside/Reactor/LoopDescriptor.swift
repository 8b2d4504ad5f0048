/// The sole owner of a descriptor that events of a loop use. The descriptor is closed on the loop's thread, after its
/// events that were released earlier.
final class LoopDescriptor {
    let number: Int32
    private let loop: EventLoop

    init(_ descriptor: consuming Descriptor, on loop: EventLoop) {
        number = descriptor.release()
        self.loop = loop
    }

    deinit {
        let number = number
        loop.dispose { System.close(number) }
    }
}
