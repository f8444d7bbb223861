#pragma once  // assert is the emulator's own: see device_language.h
