package androidx.core.app;

import android.app.Notification;
import android.app.Service;

public final class ServiceCompat {
    public static void startForeground(Service service, int id, Notification notification, int foregroundServiceType) {}
}
