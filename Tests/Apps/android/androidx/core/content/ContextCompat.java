package androidx.core.content;

import android.content.Context;
import android.content.Intent;

public class ContextCompat {
    public static void startForegroundService(Context context, Intent intent) {}
}
